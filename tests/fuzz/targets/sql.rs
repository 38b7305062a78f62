//! Values in SQL: columns of the writable views, and arguments of functions.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crm_mirror_fuzz::checks::sql::check(data));
