//! Rows of the outbox: shown, decided on and pushed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crm_mirror_fuzz::checks::outbox::check(data));
