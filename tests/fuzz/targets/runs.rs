//! Entries of the private state, and whole runs over them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crm_mirror_fuzz::checks::runs::check(data));
