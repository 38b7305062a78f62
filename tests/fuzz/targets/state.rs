//! Entries of the private state, decoded and read for the status.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crm_mirror_fuzz::checks::state::check(data));
