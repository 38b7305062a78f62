//! `sync.schedule`: when to ask for changes.

use jiff::tz::TimeZone;

use super::cron::Cron;
use crate::budget::MAX_POLL;
use crate::model::Instant;

#[derive(Clone, Debug, PartialEq)]
pub enum ChangesSchedule {
    Off,
    Cron(Cron),
    /// As often as the budget allows.
    Auto,
}

impl ChangesSchedule {
    pub const fn cron(&self) -> Option<&Cron> {
        match self {
            ChangesSchedule::Cron(cron) => Some(cron),
            ChangesSchedule::Off | ChangesSchedule::Auto => None,
        }
    }

    /// The least often that it is due after an instant, in order; `None` for never.
    pub fn due_after(&self, after: Instant, zone: &TimeZone) -> Option<Box<dyn Iterator<Item = Instant>>> {
        match self {
            ChangesSchedule::Off => None,
            ChangesSchedule::Cron(cron) => Some(Box::new(cron.due_after(after, zone))),
            ChangesSchedule::Auto => {
                let next = move |at: &Instant| Some(at.plus(MAX_POLL)).filter(|next| next > at);
                Some(Box::new(std::iter::successors(Some(after), next).skip(1)))
            }
        }
    }
}
