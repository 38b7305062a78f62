//! The program: hands its arguments over and ends with the code it is given.

use std::process::ExitCode;

fn main() -> ExitCode {
    crm_mirror::cli::main(std::env::args_os()).code().into()
}
