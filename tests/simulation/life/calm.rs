//! What happens in a large and calm life, at moments between two runs that few other lives meet.

use std::time::Duration;

use crm_mirror::model::Clock;
use crm_mirror::sync::Job;

use super::Life;
use crate::daemon::repair;
use crate::people;

impl Life<'_> {
    /// The service is restored to its records of so many hours ago.
    pub(super) fn rewind(&mut self, hours: u32) {
        self.watch.claims.records_return(self.crm.clock.now());
        for (id, at) in self.crm.sandbox.with_world(|world| people::rewind(world, hours)) {
            self.watch.dated_back(id, at);
        }
    }

    /// After a bulk change was read, one record changes with a date in its middle, and one of it changes again: a count of
    /// the seconds of the bulk change that precedes the next walk is what it was.
    pub(super) async fn late_beside(&mut self, v: u32) -> Result<(), String> {
        self.crm.sandbox.with_world(|world| people::bulk_edit_over_seconds(world, v));
        self.run_now(Job::sync()).await?;
        self.crm.clock.advance(Duration::from_secs(5));
        self.crm.sandbox.with_world(|world| people::change_beside_bulk(world, v));
        self.run_now(Job::sync()).await
    }

    /// The newest record is removed, and one that was committed too late for the changes appears beside it: an audit's
    /// counts are what they were.
    pub(super) async fn swap(&mut self, v: u32) -> Result<(), String> {
        let newest = self.crm.sandbox.with_world(|world| people::create(world, 4 * v));
        self.run_now(Job::sync()).await?;
        self.crm.clock.advance(Duration::from_secs(300));
        // It is dated before what any walk reads again, as one that returns.
        self.watch.claims.records_return(self.crm.clock.now());
        self.crm.sandbox.with_world(|world| people::swap(world, newest.as_str(), v));
        self.run_now(repair()).await
    }

    async fn run_now(&mut self, job: Job) -> Result<(), String> {
        self.daemon.ask(job, self.clock.now());
        self.work().await
    }
}
