//! What disturbs a life: the service, the clocks, the disk, the key and other programs.

use crm_mirror::model::{Clock, Instant, Ru};
use crm_mirror::sandbox::SCOPES;

use super::{Life, MINUTE, Repair};
use crate::invariants::Doubts;
use crate::process;
use crate::script::What;
use crate::trouble::Trouble;

impl Life<'_> {
    pub(super) async fn disturb(&mut self, what: &What) {
        let now = self.crm.clock.now();
        if let What::Trouble(_, minutes) | What::ScopeLost(_, minutes) | What::KeyRotated(minutes) = what {
            self.disturbed_until = self.disturbed_until.max(now.plus(*minutes * MINUTE));
        }
        match what {
            What::Trouble(trouble, minutes) => self.trouble(trouble, *minutes),
            What::ClockJump(seconds, minutes) => {
                self.clock.set_ahead(*seconds);
                self.watch.clocks_are_wrong_until(now.plus(*minutes * MINUTE));
                self.doubt(now.plus(*minutes * MINUTE));
                self.repair_in(*minutes, Repair::Clock);
                self.daemon.clock_moved(self.clock.now());
            }
            What::Kill(commits) => self.kill = Some(u64::from(*commits)),
            What::Junk(which) if self.mirror.path.exists() => {
                self.manners.hold_is_lost();
                let name = self.mirror.spoil_state(*which);
                self.say(&format!("  the state entry {name:?}"));
            }
            What::ScopeLost(lost, minutes) if !self.is_keyless() => {
                let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| scope != lost).collect();
                self.crm.sandbox.set_key(self.key(), &scopes);
                self.repair_in(*minutes, Repair::Scopes);
                self.manners.forbidden_until(now.plus(*minutes * MINUTE));
            }
            What::KeyRotated(minutes) => {
                self.repairs.retain(|(_, repair)| *repair != Repair::Scopes);
                self.crm.sandbox.revoke_key(self.key());
                self.repair_in(*minutes, Repair::Key);
                self.manners.forbidden_until(now.plus(*minutes * MINUTE));
            }
            What::Budget(units) => {
                // What the old one allowed may have been spent.
                self.watch.budget = self.watch.budget.map(|before| before.max(*units));
                self.mirror.limits.limit = Ru::new(*units);
                self.close().await;
            }
            What::DiskFull(kib) => self.full_disk = Some(*kib),
            What::CursorsDie => self.forget_cursors(),
            What::Locked => self.locked = true,
            What::LongReader(minutes) => {
                self.reader = process::read_for_long(&self.mirror.path);
                self.repair_in(*minutes, Repair::Reader);
            }
            _ => {}
        }
    }

    /// Nothing that the service shows until then is certain.
    pub(super) fn doubt(&mut self, until: Instant) {
        self.doubt_until = self.doubt_until.max(until);
        self.rows_doubt_until = self.rows_doubt_until.max(until);
    }

    pub(super) fn doubts(&self) -> Doubts {
        Doubts { until: self.doubt_until, of_rows_until: self.rows_doubt_until }
    }

    fn trouble(&mut self, trouble: &Trouble, minutes: u32) {
        let now = self.crm.clock.now();
        let until = now.plus(minutes * MINUTE);
        if trouble.deceives() {
            self.conflicts.doubt();
            self.doubt_until = self.doubt_until.max(until);
        }
        if trouble.deceives_about_rows(minutes) {
            self.doubt(until);
        }
        if matches!(trouble, Trouble::WrongDate(_) | Trouble::NoDate | Trouble::JunkDate) {
            self.watch.clocks_are_wrong_until(until);
        }
        self.manners.trouble(trouble, now, until);
        let rule = self.crm.sandbox.with_world(|world| trouble.rule(world, now, minutes));
        if let Some(rule) = rule {
            self.crm.sandbox.faults().add(rule);
        }
    }
}
