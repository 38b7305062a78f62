//! `crm-mirror mcp`: the mirror for assistants, over the Model Context Protocol on stdin and stdout.
//!
//! `protocol` implements JSON-RPC with one message per line. `tools` are the tools that an assistant can call.
//!
//! # Invariants
//! - Each call opens the mirror read-only. Only held edits can be written, and they are sent only after a person has
//!   released them.
//! - Every answer has bounds: rows, bytes of a value, bytes in all, memory and time, whatever its statement does.
//! - Values in records were written by other people. Every tool's description says that they are data, not
//!   instructions.

mod protocol;
mod tools;

pub use protocol::serve;
pub use tools::MirrorTools;
