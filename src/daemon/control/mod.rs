//! The HTTP interface of the control socket.
//!
//! Anyone who can open the socket can send every request; its mode restricts who can. Requests are small and answered
//! at once: long work is a job, and its progress is published in `GET /events`. `routes` is the table of paths,
//! `bodies` parses request bodies, `edits` queues an edit.

pub mod bodies;
pub mod edits;
mod routes;

pub(super) use routes::router;
