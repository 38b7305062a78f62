//! The HTTP interface of the control socket.
//!
//! Anyone who can open the socket can send every request; its mode restricts who can. Requests are small and answered
//! at once: long work is a job, and its progress is published in `GET /events`. `routes` is the table of paths,
//! `bodies` parses request bodies, `edits` queues an edit, `server` runs the server.

pub mod bodies;
pub mod edits;
mod routes;
mod server;

pub(super) use server::ControlServer;
