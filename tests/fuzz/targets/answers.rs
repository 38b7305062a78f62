//! Answers of the service: list pages, details and error bodies.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crm_mirror_fuzz::checks::answers::check(data));
