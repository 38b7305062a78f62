//! The control socket's HTTP: what the daemon answers, and to whom.
//!
//! Whoever may open the socket may ask for everything; its mode says who that is. Requests are small and are answered at
//! once: what takes time is a job, and its course is published in `GET /events`. `routes` is the table of paths, `bodies`
//! reads what is sent, `edits` queues an edit, `server` serves it all.

mod bodies;
mod edits;
mod routes;
mod server;

pub use server::ControlServer;
