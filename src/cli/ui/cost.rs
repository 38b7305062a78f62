//! The cost estimate of `--dry-run`, and the price of edits, which is said before a person is asked whether to send them.

use serde_json::{Value, json};

use crate::app::{self, EditBudget};
use crate::cli::Failure;
use crate::config::{BudgetConfig, Config};
use crate::format;
use crate::model::{Instant, Ru};
use crate::sync::Forecast;

pub fn of_run(forecast: &Forecast, [left, next]: [Ru; 2], budget: &BudgetConfig) -> (Value, String) {
    let (total, limit) = (forecast.total(), budget.limit);
    let windows = 1 + total.saturating_sub(left).get().div_ceil(next.get().max(1));
    let mut text = String::new();
    for of in &forecast.objects {
        let what = if of.whole { "read whole" } else { "changed since the last run" };
        text.push_str(&format!(
            "{}: {} {what}, {} for lists, {} for details\n",
            of.object,
            of.rows.map_or("an unknown number of rows".into(), |rows| format::counted(rows, "row", "rows")),
            format::ru(of.lists),
            format::ru(of.details),
        ));
    }
    for (what, units) in [("definitions and team members", forecast.short_lists), ("edits that wait", forecast.edits)] {
        if units > Ru::ZERO {
            text.push_str(&format!("{what}: {}\n", format::ru(units)));
        }
    }
    let more = match windows {
        1 => "which is enough".into(),
        _ => format!("so it takes about {windows} windows of {}", format::duration(budget.window)),
    };
    let n = |units: Ru| format::count(units.get());
    text.push_str(&format!(
        "together about {} RU; {} of {} are left for it in this window, {more}\n",
        n(total),
        n(left),
        n(limit)
    ));
    let document = json!({
        "short_lists": forecast.short_lists, "edits": forecast.edits, "objects": forecast.objects,
        "total": total, "left": left, "limit": limit, "windows": windows,
    });
    (document, text)
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
