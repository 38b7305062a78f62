//! The real binary against a sandbox in this process.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as its tests do")]

mod backup;
mod bad_input;
mod basics;
mod binary;
mod browser;
mod check;
mod check_service;
mod datasette;
mod demo;
mod describe;
mod documentation;
mod documented;
mod edit;
mod exclude;
mod excluded_reads;
mod export;
mod forget;
mod golden;
mod hold;
mod interfaces;
mod log;
mod mcp;
mod network;
mod original;
mod outbox;
mod page;
mod paths;
mod recipe_blocks;
mod recipes;
mod root;
mod runs;
mod sandbox;
mod sandbox_service;
mod show;
mod sql;
mod status;
mod stopping;
mod terminal;
mod tls;
mod verify;
