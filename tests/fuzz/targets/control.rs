//! Bodies of requests on the control socket.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crm_mirror_fuzz::checks::control::check(data));
