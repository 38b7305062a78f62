//! Counts of what happened in one life, or in several.

/// Counts of what happened.
#[derive(Debug, Default)]
pub struct Tally {
    pub days: u64,
    pub runs: u64,
    pub requests: u64,
    pub ru: u64,
    pub edits: u64,
    pub kills: u64,
    /// Of the requests in their order, without their random identifiers. That of several lives is the last one's.
    pub fingerprint: u64,
}

impl Tally {
    pub fn add(&mut self, more: &Tally) {
        self.days += more.days;
        self.runs += more.runs;
        self.requests += more.requests;
        self.ru += more.ru;
        self.edits += more.edits;
        self.kills += more.kills;
        self.fingerprint = more.fingerprint;
    }

    /// All of it in a line.
    pub fn line(&self) -> String {
        let Tally { days, runs, requests, ru, edits, kills, fingerprint: _ } = self;
        format!("{days} days, {runs} runs, {requests} requests, {ru} RU, {edits} edits, {kills} kills")
    }
}
