//! What a run has paid for is not paid for again while nothing is lost: a page of values for a new column is read once, and
//! once more where a run was suspended; the same records are looked up at longer and longer intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use crm_mirror::model::Instant;
use crm_mirror::sandbox::LoggedRequest;

const DAY: Duration = Duration::from_secs(86_400);

/// How often the same page may be read while nothing is lost.
const MOST: u32 = 3;

/// How often the same records may be looked up within a day: the intervals between the first ones are short.
const MAX_LOOKUPS: usize = 16;

const IN_A_ROW: Duration = Duration::from_secs(10);

/// What was read since something was lost.
#[derive(Default)]
pub struct Repeats {
    pages: BTreeMap<String, u32>,
    lookups: BTreeMap<String, Vec<Instant>>,
}

impl Repeats {
    /// Something was lost: what was read may have to be read again.
    pub fn forget(&mut self) {
        self.pages.clear();
        self.lookups.clear();
    }

    /// A person asked for what reads everything again, or the records have new versions.
    pub fn intervals_begin_anew(&mut self) {
        self.lookups.clear();
    }

    /// Looks at the log of a run. `reads_again` says that it may have read a page of values again.
    pub fn after_run(&mut self, log: &[LoggedRequest], reads_again: bool) -> Result<(), String> {
        let is_fill = |name: &str| name.starts_with("filter[customFields.") && name.ends_with("[isNull]");
        let fills = |entry: &&LoggedRequest| {
            entry.status == Some(200) && entry.asked.query.iter().any(|(name, _)| is_fill(name))
        };
        // What a disturbed run has read, the next one may read again.
        for entry in log.iter().filter(fills).filter(|_| !reads_again) {
            let page = format!("{:?} {:?}", entry.asked.route, entry.asked.query);
            let times = self.pages.entry(page.clone()).or_default();
            *times += 1;
            if *times > MOST {
                return Err(format!("a page of values was read {times} times: {page}"));
            }
        }
        self.lookups(log)
    }

    fn lookups(&mut self, log: &[LoggedRequest]) -> Result<(), String> {
        let is_lookup = |entry: &&LoggedRequest| {
            entry.status == Some(200) && entry.asked.query.iter().any(|(name, _)| name.starts_with("filter[id]"))
        };
        for entry in log.iter().filter(is_lookup) {
            let asked = format!("{:?} {:?}", entry.asked.route, entry.asked.query);
            let times = self.lookups.entry(asked.clone()).or_default();
            times.retain(|at| entry.at.since(*at) < DAY);
            // What cannot be read is requested three times in a row.
            if times.last().is_none_or(|at| entry.at.since(*at) >= IN_A_ROW) {
                times.push(entry.at);
            }
            if times.len() > MAX_LOOKUPS {
                return Err(format!("the same records were looked up {} times within a day: {asked}", times.len()));
            }
        }
        Ok(())
    }
}
