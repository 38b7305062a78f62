//! What edits will cost, and what is left for them: said before a person is asked whether to send them.

use crate::app::{self, EditBudget};
use crate::cli::Failure;
use crate::config::Config;
use crate::format;
use crate::model::{Instant, Ru};

#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct EditPrice {
    /// The most that sending them takes, if nothing fails.
    pub ru: u64,
    /// What edits may still spend.
    pub budget: EditBudget,
}

impl EditPrice {
    /// The price of so many edits, so many of which read their record first.
    pub(super) fn of(config: &Config, edits: u64, reads: u64) -> Result<EditPrice, Failure> {
        let ru = edits.saturating_mul(Ru::PATCH.get()).saturating_add(reads.saturating_mul(Ru::GET.get()));
        Ok(EditPrice { ru, budget: app::edit_budget(config, Instant::system_now())? })
    }

    /// The price as a sentence on a line.
    pub(super) fn text(&self) -> String {
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
