//! Small texts: headers, cursors, timestamps, decimals, schedules, durations and addresses.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crm_mirror_fuzz::checks::texts::check(data));
