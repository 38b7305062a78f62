//! What a run has paid for is not paid for again: while nothing unusual happens, a page of values for a new column is read
//! once, and once more where a run was suspended.

use std::collections::BTreeMap;

use crm_mirror::sandbox::LoggedRequest;

/// How often the same page may be read while nothing unusual happens.
const MOST: u32 = 3;

/// What was read since something unusual happened.
#[derive(Default)]
pub struct Repeats {
    pages: BTreeMap<String, u32>,
}

impl Repeats {
    /// Something unusual happened: what was read may have to be read again.
    pub fn forget(&mut self) {
        self.pages.clear();
    }

    /// Looks at the log of a run.
    pub fn after_run(&mut self, log: &[LoggedRequest]) -> Result<(), String> {
        let is_fill = |name: &str| name.starts_with("filter[customFields.") && name.ends_with("[isNull]");
        let fills = |entry: &&LoggedRequest| {
            entry.status == Some(200) && entry.asked.query.iter().any(|(name, _)| is_fill(name))
        };
        for entry in log.iter().filter(fills) {
            let page = format!("{:?} {:?}", entry.asked.route, entry.asked.query);
            let times = self.pages.entry(page.clone()).or_default();
            *times += 1;
            if *times > MOST {
                return Err(format!("a page of values was read {times} times: {page}"));
            }
        }
        Ok(())
    }
}
