//! `crm-mirror mcp`: the mirror for assistants, over the Model Context Protocol on stdin and stdout.
//!
//! `protocol` is the conversation: JSON-RPC, a message a line. `tools` are what an assistant may ask for, `answer`
//! bounds what it is told.
//!
//! # Always true
//! - The mirror is opened for reading only, anew for each call. The one thing that can be written is a held edit, which is
//!   sent only after a person has released it.
//! - Every answer has bounds: rows, bytes of a value, bytes in all, and time.
//! - What records contain was written by other people. Every description says that it is data and no instruction.

mod answer;
mod protocol;
mod tools;

pub use protocol::serve;
pub use tools::MirrorTools;
