//! The cost estimate of `--dry-run`, and the price of edits, which is said before a person is asked whether to send them.

use serde::Serialize;

use crate::app::{self, EditBudget};
use crate::budget::{Ledger, Limits};
use crate::cli::Failure;
use crate::config::Config;
use crate::format;
use crate::model::{Instant, Ru};
use crate::sync::Forecast;

#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    #[serde(flatten)]
    forecast: Forecast,
    total: Ru,
    left: Ru,
    limit: Ru,
    /// Windows that the run needs, including this one; `None` if the budget is zero.
    windows: Option<u64>,
}

impl Cost {
    pub fn new(forecast: Forecast, ledger: &Ledger, limits: &Limits) -> Cost {
        let (total, limit) = (forecast.total(), limits.limit);
        let left = limit.saturating_sub(ledger.used);
        let windows = match total.saturating_sub(left).get() {
            0 => Some(1),
            later => (limit > Ru::ZERO).then(|| 1 + later.div_ceil(limit.get())),
        };
        Cost { forecast, total, left, limit, windows }
    }

    pub fn text(&self) -> String {
        let n = |units: Ru| format::count(units.get());
        let Forecast { short_lists, objects } = &self.forecast;
        let mut text = String::new();
        for of in objects {
            let what = if of.whole { "read whole" } else { "changed since the last run" };
            text.push_str(&format!(
                "{}: {} {what}, {} for lists, {} for details\n",
                of.object,
                format::counted(of.rows, "row", "rows"),
                format::ru(of.lists),
                format::ru(of.details),
            ));
        }
        if *short_lists > Ru::ZERO {
            text.push_str(&format!("definitions and team members: {}\n", format::ru(*short_lists)));
        }
        let windows = match self.windows {
            Some(1) => "which is enough".to_string(),
            Some(windows) => format!("so it takes {} windows", format::count(windows)),
            None => "and the budget is zero".to_string(),
        };
        text.push_str(&format!(
            "together about {} RU; {} of {} are left in this window, {windows}\n",
            n(self.total),
            n(self.left),
            n(self.limit)
        ));
        text
    }
}

#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct EditPrice {
    /// The most that sending them takes, if nothing fails.
    pub ru: u64,
    pub budget: EditBudget,
}

impl EditPrice {
    /// The price of so many edits, so many of which read their record first.
    pub fn of(config: &Config, edits: u64, reads: u64) -> Result<EditPrice, Failure> {
        let ru = edits.saturating_mul(Ru::PATCH.get()).saturating_add(reads.saturating_mul(Ru::GET.get()));
        Ok(EditPrice { ru, budget: app::edit_budget(config, Instant::system_now())? })
    }

    pub fn text(&self) -> String {
        let EditPrice { ru, budget } = self;
        let more = if *ru > budget.left { "; the rest is sent when the budget refills" } else { "" };
        format!(
            "sending takes up to {} RU; {} of {} RU are left for edits until {}{more}",
            format::count(*ru),
            format::count(budget.left),
            format::count(budget.limit),
            budget.refills_at
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn windows_are_counted_from_what_is_left() {
        let limits = |limit| Limits { limit: Ru::new(limit), window: Duration::from_secs(86_400), charge_failed: true };
        let spent = |used| Ledger { used: Ru::new(used), ..Ledger::default() };
        let cost = |total| Forecast { short_lists: Ru::new(total), objects: Vec::new() };
        for (total, used, limit, windows) in
            [(10, 0, 100, Some(1)), (100, 1, 100, Some(2)), (250, 50, 100, Some(3)), (1, 0, 0, None)]
        {
            let cost = Cost::new(cost(total), &spent(used), &limits(limit));
            assert_eq!(cost.windows, windows, "{total} {used} {limit}");
        }
    }
}
