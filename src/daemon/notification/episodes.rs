//! What people are told about: episodes that begin and end. Pure: the status and the time in, sentences out.
//!
//! No sentence contains a secret, a text of the service or a value of a record.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::app::due;
use crate::app::status::{MirrorStatus, ObjectStatus};
use crate::config::Config;
use crate::daemon::status_reply::{DaemonStatus, StatusReply, public_reason};
use crate::exit::Exit;
use crate::format;
use crate::model::instant::{self, Instant};
use crate::store::publishing::queue::PublishLag;

/// How late an object may be, by what explains it: nothing, a hold, or a pause and a first copy.
const LATE: [Duration; 3] = [Duration::from_secs(1800), Duration::from_secs(3600), Duration::from_secs(86_400)];

/// How long an object must be late, and its check: less may pass until the run that is due has ended.
const LATE_FOR: Duration = Duration::from_secs(300);
const CHECK_LATE_FOR: Duration = Duration::from_secs(900);

/// How late the check for missing and removed records may be.
const CHECK_LATE: Duration = Duration::from_secs(21_600);

/// How long differences may stay: the next runs repair what they can.
const UNREPAIRED: Duration = Duration::from_secs(43_200);

/// How far behind a published copy may be.
const BEHIND: u64 = 900;

/// How long ago a published copy may have been compared: the daemon compares once a day.
const UNCOMPARED: Duration = Duration::from_secs(172_800);

/// What an episode is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Subject {
    /// An object is late by its own schedule.
    Stale,
    /// The check for missing and removed records is late.
    Incomplete,
    /// Differences, or removals that are not proven, stay.
    Differences,
    /// Many records vanished at once, and nothing was removed.
    RefusedRemovals,
    /// Edits are held, in conflict or rejected.
    Edits,
    /// The budget is spent before the window ends.
    BudgetSpent,
    /// The key is refused.
    KeyRefused,
    /// The key lacks a scope.
    MissingScope,
    /// The configuration on disk is invalid.
    ReloadFailed,
    /// The published copy is behind, lacks rows, differs, or was not compared.
    Publishing,
    /// A custom field is new or archived. It has no end.
    Fields,
}

impl Subject {
    /// The sentence at the end of an episode.
    pub(super) const fn over(self) -> &'static str {
        match self {
            Subject::Stale => "every object is up to date again",
            Subject::Incomplete => "the check for missing and removed records completed",
            Subject::Differences => "no difference is left",
            Subject::RefusedRemovals => "no removal is refused any more",
            Subject::Edits => "no edit is held, in conflict or rejected any more",
            Subject::BudgetSpent => "the budget has request units again",
            Subject::KeyRefused => "the API key is accepted again",
            Subject::MissingScope => "no scope is missing any more",
            Subject::ReloadFailed => "the configuration is valid again",
            Subject::Publishing => "the published copy is up to date again",
            Subject::Fields => "",
        }
    }
}

/// What is the matter, and what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Episode {
    /// One sentence.
    pub text: String,
    /// The command or setting that fixes it.
    pub fix: String,
    /// How long it lasts before anybody is told.
    pub after: Duration,
}

impl Episode {
    pub(super) fn new(text: impl Into<String>, fix: impl Into<String>) -> Episode {
        Episode { text: text.into(), fix: fix.into(), after: Duration::ZERO }
    }
}

/// The episodes of the moment, by the rules of `docs/monitoring/alerts.yml`.
pub(super) fn now(reply: &StatusReply, config: &Config, now: Instant) -> BTreeMap<Subject, Episode> {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let is_refused =
        daemon.and_then(|daemon| daemon.trouble.as_ref()).is_some_and(|t| t.exit == Exit::KeyRefused.code());
    let mut found = BTreeMap::new();
    if is_refused {
        let text = "the API key is refused, or has no scope: nothing is mirrored";
        found.insert(Subject::KeyRefused, Episode::new(text, config.command("check")));
    } else if status.ru.left == 0 {
        let text = format!("the budget is spent; the window ends at {}", format::moment(status.ru.refills_at));
        found.insert(Subject::BudgetSpent, Episode::new(text, "raise `budget.limit`, or poll less often"));
    } else if let Some(episode) = stale(status, daemon, config, now) {
        found.insert(Subject::Stale, episode);
    } else if let Some(episode) = incomplete(status, daemon, config, now) {
        found.insert(Subject::Incomplete, episode);
    }
    if let Some(object) = status.objects.iter().find(|object| object.outage.is_some()) {
        let (going, of) = object.outage.map_or((0, 0), |outage| (outage.going, outage.of));
        let name = object.object;
        let text = format!(
            "{} of {} {name} vanished from the service at once; nothing was removed",
            format::count(going),
            format::count(of)
        );
        let fix = format!("if they are really gone, {}", config.command(&format!("resync {name} --accept-removals")));
        found.insert(Subject::RefusedRemovals, Episode::new(text, fix));
    }
    if let Some(object) = status.objects.iter().find(|object| object.outage.is_none() && open(object) > 0) {
        let (count, name) = (format::count(open(object)), object.object);
        let text = format!("{count} {name} differ from the service, or may be removed, for half a day");
        let episode = Episode::new(text, config.command(&format!("resync {name}")));
        found.insert(Subject::Differences, Episode { after: UNREPAIRED, ..episode });
    }
    let edits = &status.edits;
    if edits.held + edits.conflict + edits.rejected > 0 {
        let (held, conflict, rejected) = (edits.held, edits.conflict, edits.rejected);
        let text = format!("{held} edits are held, {conflict} in conflict, {rejected} rejected");
        found.insert(Subject::Edits, Episode::new(text, config.command("outbox")));
    }
    if !status.missing_scopes.is_empty() {
        let scopes: BTreeSet<&str> = status.missing_scopes.iter().map(|missing| &*missing.scope).collect();
        let text = format!("the API key lacks {}", Vec::from_iter(scopes).join(", "));
        found.insert(Subject::MissingScope, Episode::new(text, config.command("check")));
    }
    if daemon.is_some_and(|daemon| daemon.reload_failed) {
        let text = "the configuration on disk is invalid; the old one is active";
        found.insert(Subject::ReloadFailed, Episode::new(text, config.command("check --offline")));
    }
    if let Some(episode) = status.publish.as_ref().and_then(|copy| publishing(copy, config, now)) {
        found.insert(Subject::Publishing, episode);
    }
    found
}

fn publishing(copy: &PublishLag, config: &Config, now: Instant) -> Option<Episode> {
    let (text, verb) = if copy.seconds > BEHIND {
        let late = format::duration(Duration::from_secs(copy.seconds));
        (format!("the published copy is {late} behind"), "publish")
    } else if copy.differences > 0 {
        let count = format::count(copy.differences);
        (format!("the published copy differs from the mirror in {count} values"), "publish --verify --repair")
    } else if copy.refused > 0 {
        (format!("PostgreSQL refuses {} rows", format::count(copy.refused)), "status")
    } else {
        let equal = copy.equal_at.filter(|at| now.since(*at) > UNCOMPARED)?;
        (format!("the published copy was last proven equal {}", format::moment(equal)), "publish --verify")
    };
    Some(Episode::new(text, config.command(verb)))
}

/// What an audit left open.
fn open(object: &ObjectStatus) -> u64 {
    object.differences + object.undecided.map_or(0, |undecided| undecided.items)
}

fn incomplete(status: &MirrorStatus, daemon: Option<&DaemonStatus>, config: &Config, now: Instant) -> Option<Episode> {
    let begun = daemon.map_or(now, |daemon| daemon.since);
    let late = |object: &&ObjectStatus| {
        let due = due::next_check(&config.sync, object.object, object.complete_as_of.unwrap_or(begun));
        // What is not read at all is not checked either, which is told as the lists being late.
        let is_read = overdue(object, daemon, config, now).is_none_or(|overdue| overdue <= LATE[0]);
        let is_known = open(object) > 0 || object.outage.is_some();
        is_read && !is_known && due.is_some_and(|due| now.since(due) > CHECK_LATE)
    };
    let names: Vec<&str> = status.mirrored(config).filter(late).map(|object| object.object.as_str()).collect();
    let text = format!("nobody knows whether {} are complete: the check is late", names.join(", "));
    (!names.is_empty()).then(|| Episode { after: CHECK_LATE_FOR, ..Episode::new(text, config.command("verify")) })
}

/// How late an object is by its own schedule; `None` if it has none.
fn overdue(object: &ObjectStatus, daemon: Option<&DaemonStatus>, config: &Config, now: Instant) -> Option<Duration> {
    let poll = daemon.and_then(|daemon| daemon.next.iter().find_map(|next| next.interval)).map(Duration::from_secs);
    let begun = daemon.map_or(now, |daemon| daemon.since);
    let due = due::next_read(&config.sync, object.object, object.changes_as_of.unwrap_or(begun), poll);
    due.map(|due| now.since(due))
}

fn stale(status: &MirrorStatus, daemon: Option<&DaemonStatus>, config: &Config, now: Instant) -> Option<Episode> {
    let trouble = daemon.and_then(|daemon| daemon.trouble.as_ref());
    let paused = daemon.and_then(|daemon| daemon.paused_since);
    let late = |object: &&ObjectStatus| {
        let copying = object.sweep.is_some_and(|sweep| sweep.first_copy) && trouble.is_none();
        let [unexplained, held, excused] = LATE;
        let allowed = if paused.is_some() || copying {
            excused
        } else if status.hold_until.is_some() {
            held
        } else {
            unexplained
        };
        overdue(object, daemon, config, now).is_some_and(|overdue| overdue > allowed)
    };
    let objects: Vec<&ObjectStatus> = status.mirrored(config).filter(late).collect();
    let oldest = objects.iter().map(|object| object.changes_as_of).min()?;
    let names: Vec<&str> = objects.iter().map(|object| object.object.as_str()).collect();
    let read = oldest.map_or("never".into(), format::moment);
    let (why, fix) = match (paused, status.hold_until, trouble) {
        (Some(_), ..) => ("the schedule is paused", config.command("resume")),
        (None, Some(_), _) => ("rate limits of the service", config.command("status")),
        (None, None, Some(trouble)) => (public_reason(trouble.exit), config.command("status")),
        (None, None, None) => ("no run completed", config.command("status")),
    };
    let text = format!("{} last read {read}: {why}", names.join(", "));
    Some(Episode { after: LATE_FOR, ..Episode::new(text, fix) })
}

/// Since when each episode lasts, as far as this process has seen it.
#[derive(Debug, Default)]
pub(super) struct Lasting(BTreeMap<Subject, Instant>);

impl Lasting {
    /// Leaves out the episodes that began too recently for anybody to be told, unless their beginning was told before a
    /// restart.
    pub(super) fn long_enough(&mut self, found: &mut BTreeMap<Subject, Episode>, told: &Told, now: Instant) {
        self.0.retain(|subject, _| found.contains_key(subject));
        found.retain(|subject, episode| {
            let lasted = now.since(*self.0.entry(*subject).or_insert(now));
            told.open.contains_key(subject) || lasted >= episode.after
        });
    }
}

/// What was told, as the mirror stores it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// The episodes whose beginning was told, and whose end was not, with the time of their beginning.
    pub open: BTreeMap<Subject, Instant>,
    /// The entry of the feed up to which changes of fields were told.
    pub fields_after: Option<u64>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Notice {
    /// The workspace.
    pub workspace: String,
    /// What it is about.
    pub episode: Subject,
    /// `begins` or `over`.
    pub state: &'static str,
    /// When the episode began, UTC.
    #[serde(serialize_with = "instant::utc_always")]
    pub since: Instant,
    /// The whole message, for programs that show one text.
    pub text: String,
    /// The command or setting that fixes it.
    pub fix: Option<String>,
}

impl Notice {
    pub(super) fn begins(config: &Config, subject: Subject, episode: &Episode, since: Instant) -> Notice {
        let workspace = config.workspace();
        let text = format!("{}: {}; fix: {}", sender(&workspace), episode.text, episode.fix);
        Notice { workspace, episode: subject, state: "begins", since, text, fix: Some(episode.fix.clone()) }
    }

    fn over(config: &Config, subject: Subject, since: Instant) -> Notice {
        let workspace = config.workspace();
        let text = format!("{}: over: {}", sender(&workspace), subject.over());
        Notice { workspace, episode: subject, state: "over", since, text, fix: None }
    }
}

/// Who writes. The configuration file of a single mirror has the name of the program.
fn sender(workspace: &str) -> String {
    if workspace == "crm-mirror" { workspace.into() } else { format!("crm-mirror {workspace}") }
}

/// The messages that are due. An end is told only if `may_end`: a daemon that has just started has not tried yet what
/// failed before.
pub(super) fn due(
    told: &Told,
    found: &BTreeMap<Subject, Episode>,
    may_end: bool,
    config: &Config,
    now: Instant,
) -> Vec<Notice> {
    let begun = found.iter().filter(|(subject, _)| !told.open.contains_key(subject));
    let begun = begun.map(|(subject, episode)| Notice::begins(config, *subject, episode, now));
    let over = told.open.iter().filter(|(subject, _)| may_end && !found.contains_key(subject));
    begun.chain(over.map(|(subject, since)| Notice::over(config, *subject, *since))).collect()
}

impl Told {
    /// Records that a message was delivered.
    pub(super) fn delivered(&mut self, notice: &Notice) {
        match (notice.episode, notice.state) {
            (Subject::Fields, _) => {}
            (subject, "begins") => {
                self.open.insert(subject, notice.since);
            }
            (subject, _) => {
                self.open.remove(&subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Sources};

    fn config() -> Config {
        let (environment, flags) = (Environment::default(), Vec::new());
        Config::load(&Sources { file: None, default_file: "/nowhere".into(), environment, flags }).unwrap()
    }

    #[test]
    fn message_names_the_program_once() {
        assert_eq!(["acme", "crm-mirror"].map(sender), ["crm-mirror acme", "crm-mirror"]);
    }

    #[test]
    fn an_episode_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let (config, at) = (config(), Instant::EPOCH);
        let mut told = Told::default();
        let mut step = |found: &[Subject], may_end: bool| {
            let episode = |subject: &Subject| (*subject, Episode::new("t", "f"));
            let due = due(&told, &found.iter().map(episode).collect(), may_end, &config, at);
            due.iter().for_each(|notice| told.delivered(notice));
            due.iter().map(|notice| (notice.episode, notice.state)).collect::<Vec<_>>()
        };
        assert_eq!(step(&[Subject::Stale], true), [(Subject::Stale, "begins")]);
        assert_eq!(step(&[Subject::Stale, Subject::Edits], true), [(Subject::Edits, "begins")]);
        assert_eq!(step(&[Subject::Stale], false), [], "not tried yet");
        assert_eq!(step(&[Subject::Stale], true), [(Subject::Edits, "over")]);
        assert_eq!(step(&[], true), [(Subject::Stale, "over")]);
        assert_eq!(step(&[], true), []);
    }
}
