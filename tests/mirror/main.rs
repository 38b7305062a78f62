//! The mirror: whatever happens to the service and the process, the file ends equal to the service.
//!
//! Every test runs the real engine against a sandbox over HTTP on loopback, with a real SQLite file in a temporary
//! directory. Each file covers one subject.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on ends there")]

#[path = "../support/mod.rs"]
mod support;
#[macro_use]
mod shards;

mod acceptance;
mod audits;
mod broken_rules;
mod budget;
mod changes;
mod clocks;
mod definitions_over_time;
mod doubts;
mod evidence;
mod feed;
mod filled_columns;
mod first_copy;
mod held_lock;
mod histories;
mod holds;
mod hostile_keys;
mod identity;
mod independent_steps;
mod indexes;
mod kills;
mod lacking_etags;
mod lacking_keys;
mod long_ids;
mod lost_state;
mod odd_answers;
mod old_details;
mod older_answers;
mod omitted_values;
mod outbox_answers;
mod outbox_bench;
mod outbox_carried;
mod outbox_check;
mod outbox_exact;
mod outbox_histories;
mod outbox_judgement;
mod outbox_limits;
mod outbox_local;
mod outbox_others;
mod outbox_push;
mod outbox_scale;
mod outbox_unseen;
mod outbox_unshown;
mod outbox_values;
mod outbox_versions;
mod owed_counts;
mod page_sizes;
mod paging_by_value;
mod parallel_copy;
mod permanent_failures;
mod plain;
mod random_worlds;
mod readers;
mod refused_removals;
mod removal_lookups;
mod resync;
mod rows_ahead;
mod ru_per_day;
mod schema_versions;
mod search;
mod short_answers;
mod short_lists;
mod small_budgets;
mod spelling;
mod steady_changes;
mod stock_sqlite;
mod unfinished_sweep;
mod unreadable_records;
mod unseen_cases;
mod user_objects;
mod view_options;
mod witnesses;
