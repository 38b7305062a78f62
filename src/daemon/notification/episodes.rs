//! What people are told about: episodes that begin and end. Pure: the status and the time in, sentences out.
//!
//! No sentence contains a secret, a text of the service or a value of a record.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::app::schedule;
use crate::app::status::ObjectStatus;
use crate::config::Config;
use crate::daemon::status_reply::{DaemonStatus, StatusReply, public_reason};
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, instant};
use crate::store::PublishLag;

/// How late an object may be, by what explains it: nothing, a hold, or a pause and a first copy.
const LATE: [Duration; 3] = [Duration::from_secs(1800), Duration::from_secs(3600), Duration::from_secs(86_400)];

/// How long an object must be late, and its check: less may pass until the run that is due has ended.
const LATE_FOR: Duration = Duration::from_secs(300);
const CHECK_LATE_FOR: Duration = Duration::from_secs(900);

const CHECK_LATE: Duration = Duration::from_secs(21_600);

/// How long differences may stay: the next runs repair what they can.
const UNREPAIRED: Duration = Duration::from_secs(43_200);

const BEHIND: u64 = 900;

/// How long ago a published copy may have been compared: the daemon compares once a day.
const UNCOMPARED: Duration = Duration::from_secs(172_800);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Subject {
    Stale,
    Incomplete,
    /// Differences, or removals that are not proven, stay.
    Differences,
    RefusedRemovals,
    Edits,
    BudgetSpent,
    KeyRefused,
    MissingScope,
    ReloadFailed,
    /// The published copy is behind, lacks rows, differs, or was not compared.
    Publishing,
    /// A custom field is new or archived. It has no end.
    Fields,
}

impl Subject {
    /// What explains it: while one of these lasts, it does not begin.
    const fn explained_by(self) -> &'static [Subject] {
        match self {
            Subject::BudgetSpent => &[Subject::KeyRefused],
            Subject::Stale => &[Subject::KeyRefused, Subject::BudgetSpent],
            Subject::Incomplete => &[Subject::KeyRefused, Subject::BudgetSpent, Subject::Stale],
            _ => &[],
        }
    }

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
            Subject::Publishing => "nothing is owed to the published copy any more",
            Subject::Fields => "",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Episode {
    pub text: String,
    pub fix: String,
    /// How long it lasts before anybody is told.
    pub after: Duration,
}

impl Episode {
    pub(super) fn new(text: impl Into<String>, fix: impl Into<String>) -> Episode {
        Episode { text: text.into(), fix: fix.into(), after: Duration::ZERO }
    }
}

/// The episodes of the moment, by the rules of `docs/monitoring/alerts.yml`. One whose beginning was told lasts until it is
/// known to be over, whatever explains it meanwhile.
pub(super) fn now(reply: &StatusReply, config: &Config, told: &Told, now: Instant) -> BTreeMap<Subject, Episode> {
    let mut found = conditions(reply, config, told, now);
    let subjects: BTreeSet<Subject> = found.keys().copied().collect();
    let is_explained = |subject: &Subject| subject.explained_by().iter().any(|by| subjects.contains(by));
    found.retain(|subject, _| told.is_open(*subject) || !is_explained(subject));
    // Only what was read since shows that the key is accepted: a failure of another kind, a reload, a run without a
    // request and a restart end the trouble, too.
    let is_read_since = |since| reply.status.objects.iter().any(|object| object.changes_as_of > Some(since));
    if told.open.get(&Subject::KeyRefused).is_some_and(|refused| refused.told && !is_read_since(refused.since)) {
        found.entry(Subject::KeyRefused).or_insert_with(|| key_refused(config));
    }
    found
}

fn key_refused(config: &Config) -> Episode {
    Episode::new("the API key is refused, or has no scope: nothing is mirrored", config.command("check"))
}

fn conditions(reply: &StatusReply, config: &Config, told: &Told, now: Instant) -> BTreeMap<Subject, Episode> {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let trouble = daemon.and_then(|daemon| daemon.trouble.as_ref());
    let refused_key = trouble.filter(|trouble| trouble.exit == Exit::KeyRefused.code());
    let spent = (status.ru.left == 0).then(|| {
        let text = format!("the budget is spent; the window ends at {}", format::moment(status.ru.refills_at));
        Episode::new(text, "raise `budget.limit`, or poll less often")
    });
    let refused_removals = status.objects.iter().find_map(|object| {
        let (outage, name) = (object.outage?, object.object);
        let (going, of) = (format::count(outage.going), format::count(outage.of));
        let text = format!("{going} of {of} {name} vanished from the service at once; nothing was removed");
        let command = config.command(&format!("resync {name} --accept-removals"));
        Some(Episode::new(text, format!("if they are really gone, {command}")))
    });
    let is_known = |object: &ObjectStatus| object.outage.is_some() && !told.is_open(Subject::Differences);
    let differing = status.objects.iter().find(|object| !is_known(object) && open(object) > 0).map(|object| {
        let (count, name) = (format::count(open(object)), object.object);
        let text = format!("{count} {name} differ from the service, or may be removed, for half a day");
        Episode { after: UNREPAIRED, ..Episode::new(text, config.command(&format!("resync {name}"))) }
    });
    let (held, conflict, rejected) = (status.edits.held, status.edits.conflict, status.edits.rejected);
    let edits = (held + conflict + rejected > 0).then(|| {
        let text = format!("{held} edits are held, {conflict} in conflict, {rejected} rejected");
        Episode::new(text, config.command("outbox"))
    });
    let scopes: BTreeSet<&str> = status.missing_scopes.iter().map(|missing| &*missing.scope).collect();
    let scopes = (!scopes.is_empty()).then(|| {
        let text = format!("the API key lacks {}", Vec::from_iter(scopes).join(", "));
        Episode::new(text, config.command("check"))
    });
    let invalid = daemon.filter(|daemon| daemon.reload_failed).map(|_| {
        let text = "the configuration on disk is invalid; the old one is active";
        Episode::new(text, config.command("check --offline"))
    });
    let found = [
        (Subject::KeyRefused, refused_key.map(|_| key_refused(config))),
        (Subject::BudgetSpent, spent),
        (Subject::Stale, stale(reply, config, told, now)),
        (Subject::Incomplete, incomplete(reply, config, told, now)),
        (Subject::RefusedRemovals, refused_removals),
        (Subject::Differences, differing),
        (Subject::Edits, edits),
        (Subject::MissingScope, scopes),
        (Subject::ReloadFailed, invalid),
        (Subject::Publishing, status.publish.as_ref().and_then(|copy| publishing(copy, config, now))),
    ];
    found.into_iter().filter_map(|(subject, episode)| Some((subject, episode?))).collect()
}

fn publishing(copy: &PublishLag, config: &Config, now: Instant) -> Option<Episode> {
    let (text, verb) = if copy.seconds > BEHIND {
        let late = format::duration(Duration::from_secs(copy.seconds));
        (format!("the published copy is {late} behind"), "publish")
    } else if copy.proof.differences > 0 {
        let count = format::count(copy.proof.differences);
        (format!("the published copy differs from the mirror in {count} values"), "publish --verify --repair")
    } else if copy.refused > 0 {
        (format!("PostgreSQL refuses {} rows", format::count(copy.refused)), "status")
    } else {
        let since = copy.unproven_since().filter(|at| now.since(*at) > UNCOMPARED)?;
        (format!("the published copy is not proven equal since {}", format::moment(since)), "publish --verify")
    };
    Some(Episode::new(text, config.command(verb)))
}

fn open(object: &ObjectStatus) -> u64 {
    object.differences + object.undecided.map_or(0, |undecided| undecided.items)
}

fn incomplete(reply: &StatusReply, config: &Config, told: &Told, now: Instant) -> Option<Episode> {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let begun = daemon.map_or(now, |daemon| daemon.since);
    let late = |object: &&ObjectStatus| {
        let due = schedule::next_check(&config.sync, object.object, object.complete_as_of.unwrap_or(begun));
        // What is not read at all is not checked either, which is told as the lists being late.
        let is_read = overdue(object, daemon, config, now).is_none_or(|overdue| overdue <= LATE[0]);
        let is_known = open(object) > 0 || object.outage.is_some();
        let is_unexplained = is_read && !is_known || told.is_open(Subject::Incomplete);
        is_unexplained && due.is_some_and(|due| now.since(due) > CHECK_LATE)
    };
    let names: Vec<&str> = status.mirrored(config).filter(late).map(|object| object.object.as_str()).collect();
    let text = format!("nobody knows whether {} are complete: the check is late", names.join(", "));
    (!names.is_empty()).then(|| Episode { after: CHECK_LATE_FOR, ..Episode::new(text, config.command("verify")) })
}

/// How late an object is by its own schedule; `None` if it has none.
fn overdue(object: &ObjectStatus, daemon: Option<&DaemonStatus>, config: &Config, now: Instant) -> Option<Duration> {
    let poll = daemon.and_then(DaemonStatus::poll_interval);
    let begun = daemon.map_or(now, |daemon| daemon.since);
    let due = schedule::next_read(&config.sync, object.object, object.changes_as_of.unwrap_or(begun), poll);
    due.map(|due| now.since(due))
}

fn stale(reply: &StatusReply, config: &Config, told: &Told, now: Instant) -> Option<Episode> {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let trouble = daemon.and_then(|daemon| daemon.trouble.as_ref());
    let paused = daemon.and_then(|daemon| daemon.paused_since);
    let late = |object: &&ObjectStatus| {
        let copying = object.sweep.is_some_and(|sweep| sweep.first_copy) && trouble.is_none();
        let [unexplained, held, excused] = LATE;
        let allowed = if told.is_open(Subject::Stale) {
            unexplained
        } else if paused.is_some() || copying {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lasting {
    since: Instant,
    told: bool,
}

/// What the mirror stores, so that a restart neither repeats a message nor begins to wait again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    open: BTreeMap<Subject, Lasting>,
    /// The entry of the feed up to which changes of fields were told.
    pub fields_after: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Notice {
    pub workspace: String,
    pub episode: Subject,
    pub state: &'static str,
    #[serde(serialize_with = "instant::utc_always")]
    pub since: Instant,
    /// The whole message, for programs that show one text.
    pub text: String,
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

impl Told {
    fn is_open(&self, subject: Subject) -> bool {
        self.open.get(&subject).is_some_and(|episode| episode.told)
    }

    /// Records which episodes last. One that ends before it was told is forgotten.
    pub(super) fn observe(&mut self, found: &BTreeMap<Subject, Episode>, now: Instant) {
        self.open.retain(|subject, episode| episode.told || found.contains_key(subject));
        for subject in found.keys() {
            let episode = self.open.entry(*subject).or_insert(Lasting { since: now, told: false });
            // A clock that was set back would make it wait for longer.
            episode.since = episode.since.min(now);
        }
    }

    /// The messages that are due. An end is told only if `may_end`: a daemon that has just started has not tried yet what
    /// failed before.
    pub(super) fn due(
        &self,
        found: &BTreeMap<Subject, Episode>,
        may_end: bool,
        config: &Config,
        now: Instant,
    ) -> Vec<Notice> {
        let notice = |(subject, lasting): (&Subject, &Lasting)| match (found.get(subject), lasting.told) {
            (Some(episode), false) if now.since(lasting.since) >= episode.after => {
                Some(Notice::begins(config, *subject, episode, lasting.since))
            }
            (None, true) if may_end => Some(Notice::over(config, *subject, lasting.since)),
            _ => None,
        };
        self.open.iter().filter_map(notice).collect()
    }

    /// Records that a message was delivered; `newest` is the last entry of the feed that it is about.
    pub(super) fn delivered(&mut self, notice: &Notice, newest: u64) {
        match (notice.episode, notice.state) {
            (Subject::Fields, _) => self.fields_after = Some(newest),
            (subject, "begins") => _ = self.open.insert(subject, Lasting { since: notice.since, told: true }),
            (subject, _) => _ = self.open.remove(&subject),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Sources};
    use crate::daemon::state_machine::Trouble;

    fn config() -> Config {
        let (environment, flags) = (Environment::default(), Vec::new());
        Config::load(&Sources { file: None, default_file: "/nowhere".into(), environment, flags }).unwrap()
    }

    #[test]
    fn message_names_the_program_once() {
        assert_eq!(["acme", "crm-mirror"].map(sender), ["crm-mirror acme", "crm-mirror"]);
    }

    fn found(subjects: &[(Subject, Duration)]) -> BTreeMap<Subject, Episode> {
        subjects
            .iter()
            .map(|(subject, after)| (*subject, Episode { after: *after, ..Episode::new("t", "f") }))
            .collect()
    }

    #[test]
    fn an_episode_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let (config, at) = (config(), Instant::EPOCH);
        let mut told = Told::default();
        let mut step = |subjects: &[Subject], may_end: bool| {
            let found = found(&Vec::from_iter(subjects.iter().map(|subject| (*subject, Duration::ZERO))));
            told.observe(&found, at);
            let due = told.due(&found, may_end, &config, at);
            due.iter().for_each(|notice| told.delivered(notice, 0));
            due.iter().map(|notice| (notice.episode, notice.state)).collect::<Vec<_>>()
        };
        assert_eq!(step(&[Subject::Stale], true), [(Subject::Stale, "begins")]);
        assert_eq!(step(&[Subject::Stale, Subject::Edits], true), [(Subject::Edits, "begins")]);
        assert_eq!(step(&[Subject::Stale], false), [], "not tried yet");
        assert_eq!(step(&[Subject::Stale], true), [(Subject::Edits, "over")]);
        assert_eq!(step(&[], true), [(Subject::Stale, "over")]);
        assert_eq!(step(&[], true), []);
    }

    #[test]
    fn an_episode_lasts_across_restarts_and_a_clock_that_is_set_back() {
        let (config, half_a_day) = (config(), Duration::from_secs(43_200));
        let (found, late) = (found(&[(Subject::Differences, half_a_day)]), Instant::EPOCH.plus(10 * half_a_day));
        let mut told = Told::default();
        told.observe(&found, late);
        assert_eq!(told.due(&found, true, &config, late), []);
        // Stored and read again, on a clock that is days behind.
        let mut told: Told = serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap();
        let begun = Instant::EPOCH;
        told.observe(&found, begun);
        let now = begun.plus(half_a_day);
        told.observe(&found, now);
        let due = told.due(&found, true, &config, now);
        assert_eq!(due.iter().map(|notice| (notice.state, notice.since)).collect::<Vec<_>>(), [("begins", begun)]);
        told.observe(&BTreeMap::new(), now);
        assert_eq!(told, Told::default(), "nothing was told, so nothing is over");
    }

    /// A mirror that was read so many minutes ago, with a run that failed like this.
    fn reply(config: &mut Config, minutes: u64, exit: Option<Exit>) -> (StatusReply, Instant) {
        let folder = tempfile::tempdir().unwrap();
        config.database = folder.path().join("mirror.db");
        drop(crate::store::Store::open(&config.database).unwrap());
        let at: Instant = "2026-03-04T12:00:00Z".parse().unwrap();
        let mut status = crate::app::status::read(config, at).unwrap();
        for object in &mut status.objects {
            object.changes_as_of = Some(at.minus(Duration::from_secs(60 * minutes)));
            object.complete_as_of = object.changes_as_of;
        }
        let daemon = DaemonStatus {
            trouble: exit.map(|exit| Trouble {
                since: at,
                reason: String::new(),
                exit: exit.code(),
                runs: 1,
                delayed: [0, 1],
                next_try: at,
                partial: false,
                is_of_key: false,
                only_pushes: false,
            }),
            ..DaemonStatus::new(at, &jiff::tz::TimeZone::UTC)
        };
        (StatusReply { status, daemon: Some(daemon) }, at)
    }

    #[test]
    fn what_explains_an_episode_keeps_it_from_beginning_and_does_not_end_it() {
        use Subject::{BudgetSpent, KeyRefused, Stale};
        let mut config = config();
        // Half an hour before the status.
        let lasting = Lasting { since: "2026-03-04T11:30:00Z".parse().unwrap(), told: true };
        let told = |subjects: &[Subject]| Told {
            open: subjects.iter().map(|subject| (*subject, lasting)).collect(),
            fields_after: None,
        };
        let mut check = |minutes: u64, exit: Option<Exit>, change: fn(&mut StatusReply), expected: [&[Subject]; 2]| {
            let (mut reply, at) = reply(&mut config, minutes, exit);
            change(&mut reply);
            let found = [told(&[]), told(&[Stale, KeyRefused])].map(|told| now(&reply, &config, &told, at));
            assert_eq!(found.map(|found| Vec::from_iter(found.into_keys())), expected.map(<[Subject]>::to_vec));
        };
        let (away, refused) = (Some(Exit::Unavailable), Some(Exit::KeyRefused));
        check(60, away, |_| {}, [&[Stale], &[Stale, KeyRefused]]);
        check(60, refused, |_| {}, [&[KeyRefused], &[Stale, KeyRefused]]);
        check(60, None, |reply| reply.status.ru.left = 0, [&[BudgetSpent], &[Stale, BudgetSpent, KeyRefused]]);
        let hold: fn(&mut StatusReply) = |reply| reply.status.hold_until = Some(reply.status.read_at);
        check(60, None, hold, [&[], &[Stale, KeyRefused]]);
        let pause: fn(&mut StatusReply) = |reply| reply.daemon.as_mut().unwrap().paused_since = Some(Instant::EPOCH);
        check(60, None, pause, [&[], &[Stale, KeyRefused]]);
        check(1, refused, |_| {}, [&[KeyRefused], &[KeyRefused]]);
        check(1, None, |_| {}, [&[], &[]]);
    }
}
