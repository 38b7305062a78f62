//! The cost estimate of `--dry-run`, and the price of edits, which is said before a person is asked whether to send them;
//! and what keeps an edit back.

use serde::Serialize;

use crate::app::{self, Allowance, EditBudget};
use crate::cli::Failure;
use crate::config::Config;
use crate::format;
use crate::model::{HELD_COMMANDS, Instant, Ru};
use crate::store::outbox_report::EditLine;
use crate::store::{ReadTx, StateKey, StoreError};
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
    pub fn new(forecast: Forecast, allowance: &Allowance, limit: Ru) -> Cost {
        let total = forecast.total();
        Cost { forecast, total, left: allowance.left, limit, windows: allowance.windows(total) }
    }

    pub fn text(&self) -> String {
        let n = |units: Ru| format::count(units.get());
        let Forecast { short_lists, edits, objects } = &self.forecast;
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
        if *edits > Ru::ZERO {
            text.push_str(&format!("edits that wait: {}\n", format::ru(*edits)));
        }
        let windows = match self.windows {
            Some(1) => "which is enough".to_string(),
            Some(windows) => format!("so it takes {} windows", format::count(windows)),
            None => "and the budget is zero".to_string(),
        };
        text.push_str(&format!(
            "together about {} RU; {} of {} are left for it in this window, {windows}\n",
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
    pub fn of(config: &Config, ru: Ru) -> Result<EditPrice, Failure> {
        Ok(EditPrice { ru: ru.get(), budget: app::edit_budget(config, Instant::system_now())? })
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

/// What keeps an edit from being sent, if something does: a conflict before it, the limit on new edits, or a pause.
pub fn kept_back(tx: &ReadTx<'_>, config: &Config, edit: &EditLine) -> Result<Option<String>, StoreError> {
    if let Some(conflict) = edit.behind {
        let how = format!("`crm-mirror outbox show {conflict}` shows both values, `outbox resolve {conflict}` decides");
        return Ok(Some(format!("it waits, because edit {conflict} of the same record is in conflict: {how}")));
    }
    if edit.may_be_held && app::holds_new_edits(tx, config)? {
        let most = config.write_back.max_edits;
        return Ok(Some(format!("it will be held, with more than {most} new edits within an hour: {HELD_COMMANDS}")));
    }
    let paused: Option<Instant> = tx.state(&StateKey::PausedSince)?;
    let how = "`crm-mirror push` sends it now, `crm-mirror resume` ends the pause";
    Ok(paused.filter(|_| edit.waits()).map(|_| format!("it waits, because the schedule is paused: {how}")))
}
