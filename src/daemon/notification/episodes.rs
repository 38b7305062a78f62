//! What people are told about: episodes that begin and end. Pure: the status and the time in, sentences out.
//!
//! No sentence contains a secret, a text of the service or a value of a record.

use std::collections::BTreeSet;
use std::time::Duration;

use super::told::{Episode, Found, Subject, Told};
use crate::app::schedule;
use crate::app::status::ObjectStatus;
use crate::config::Config;
use crate::daemon::status_reply::{DaemonStatus, StatusReply, public_reason};
use crate::exit::Exit;
use crate::format;
use crate::model::Instant;
use crate::store::PublishLag;

/// How late an object may be, by what explains it: nothing, a hold, or a pause and a first copy.
const LATE: [Duration; 3] = [Duration::from_secs(1800), Duration::from_secs(3600), Duration::from_secs(86_400)];

/// How long an object must be late, and its check: less may pass until the run that is due has ended.
const LATE_FOR: Duration = Duration::from_secs(300);
const CHECK_LATE_FOR: Duration = Duration::from_secs(900);

/// How long a copy may stay uncompared then: the comparison that is due may be under way.
const UNCOMPARED_FOR: Duration = Duration::from_secs(7_200);

const CHECK_LATE: Duration = Duration::from_secs(21_600);

/// How long differences may stay: the next runs repair what they can.
const UNREPAIRED: Duration = Duration::from_secs(43_200);

const BEHIND: u64 = 900;

/// How long ago a published copy may have been compared: the daemon compares once a day.
const UNCOMPARED: Duration = Duration::from_secs(172_800);

/// The episodes of the moment, by the rules of `docs/monitoring/alerts.yml`. One whose beginning was told lasts until it is
/// known to be over, whatever explains it meanwhile.
pub(super) fn now(reply: &StatusReply, config: &Config, told: &Told, now: Instant) -> Found {
    let mut found = conditions(reply, config, told, now);
    let subjects: BTreeSet<Subject> = found.keys().copied().collect();
    found.retain(|subject, of| {
        let is_explained = subject.explained_by().iter().any(|by| subjects.contains(by));
        of.retain(|about, _| !is_explained || told.since(*subject, about).is_some());
        // What was told is not over because what is left of it is explained.
        !of.is_empty() || told.open.get(subject).is_some_and(|known| known.values().any(|lasting| lasting.told))
    });
    // Only what was read since shows that the key is accepted: a failure of another kind, a reload, a run without a
    // request and a restart end the trouble, too.
    let is_read_since = |since| reply.status.objects.iter().any(|object| object.changes_as_of > Some(since));
    if told.since(Subject::KeyRefused, "").is_some_and(|since| !is_read_since(since)) {
        add(&mut found, Subject::KeyRefused, [""], key_refused(config));
    }
    found
}

/// Adds an episode for each of what it is about; an empty text stands for all.
fn add<'a>(found: &mut Found, subject: Subject, abouts: impl IntoIterator<Item = &'a str>, episode: Episode) {
    let abouts = abouts.into_iter().map(ToString::to_string);
    let of: Vec<(String, Episode)> = abouts.zip(std::iter::repeat(episode)).collect();
    if !of.is_empty() {
        found.entry(subject).or_default().extend(of);
    }
}

fn key_refused(config: &Config) -> Episode {
    Episode::new("the API key is refused, or has no scope: nothing is mirrored", config.command("check"))
}

fn conditions(reply: &StatusReply, config: &Config, told: &Told, now: Instant) -> Found {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let mut found = Found::new();
    let trouble = daemon.and_then(|daemon| daemon.trouble.as_ref());
    let is_refused = trouble.is_some_and(|trouble| trouble.exit == Exit::KeyRefused.code());
    add(&mut found, Subject::KeyRefused, is_refused.then_some(""), key_refused(config));
    let text = format!("the budget is spent; the window ends at {}", format::moment(status.ru.refills_at));
    let spent = Episode::new(text, "raise `budget.limit`, or poll less often");
    add(&mut found, Subject::BudgetSpent, (status.ru.left == 0).then_some(""), spent);
    let (objects, episode) = stale(reply, config, told, now);
    add(&mut found, Subject::Stale, objects, episode);
    let (objects, episode) = incomplete(reply, config, told, now);
    add(&mut found, Subject::Incomplete, objects, episode);
    for object in &status.objects {
        removals(&mut found, object, config, told);
    }
    let (held, conflict, rejected) = (status.edits.held, status.edits.conflict, status.edits.rejected);
    let text = format!("{held} edits are held, {conflict} in conflict, {rejected} rejected");
    let states = [("held", held), ("conflict", conflict), ("rejected", rejected)];
    let states = states.into_iter().filter(|(_, count)| *count > 0).map(|(state, _)| state);
    add(&mut found, Subject::Edits, states, Episode::new(text, config.command("outbox")));
    let scopes: BTreeSet<&str> = status.missing_scopes.iter().map(|missing| &*missing.scope).collect();
    let text = format!("the API key lacks {}", Vec::from_iter(scopes.clone()).join(", "));
    add(&mut found, Subject::MissingScope, scopes, Episode::new(text, config.command("check")));
    let text = "the configuration on disk is invalid; the old one is active";
    let invalid = Episode::new(text, config.command("check --offline"));
    let has_failed = daemon.is_some_and(|daemon| daemon.reload_failed);
    add(&mut found, Subject::ReloadFailed, has_failed.then_some(""), invalid);
    if let Some(copy) = &status.publish {
        publishing(&mut found, copy, config, now);
    }
    found
}

fn removals(found: &mut Found, object: &ObjectStatus, config: &Config, told: &Told) {
    let name = object.object.as_str();
    if let Some(outage) = object.outage {
        let (going, of) = (format::count(outage.going), format::count(outage.of));
        let text = format!("{going} of {of} {name} vanished from the service at once; nothing was removed");
        let command = config.command(&format!("resync {name} --accept-removals"));
        let episode = Episode::new(text, format!("if they are really gone, {command}"));
        add(found, Subject::RefusedRemovals, [name], episode);
    }
    let is_unknown = object.outage.is_none() || told.since(Subject::Differences, name).is_some();
    let count = format::count(open(object));
    let text = format!("{count} {name} differ from the service, or may differ, for half a day");
    let episode = Episode::new(text, config.command(&format!("resync {name}")));
    let is_open = is_unknown && open(object) > 0;
    add(found, Subject::Differences, is_open.then_some(name), Episode { after: UNREPAIRED, ..episode });
}

fn publishing(found: &mut Found, copy: &PublishLag, config: &Config, now: Instant) {
    let (late, count) = (format::duration(Duration::from_secs(copy.seconds)), format::count(copy.proof.differences));
    let since = copy.unproven_since();
    let is_unproven = since.is_some_and(|since| now.since(since) > UNCOMPARED);
    let is_known = copy.seconds > BEHIND || copy.proof.differences > 0 || copy.refused > 0;
    for (about, holds, text, verb) in [
        ("behind", copy.seconds > BEHIND, format!("the published copy is {late} behind"), "publish"),
        (
            "differs",
            copy.proof.differences > 0,
            format!("the published copy differs from the mirror in {count} values"),
            "publish --verify --repair",
        ),
        ("refused", copy.refused > 0, format!("PostgreSQL refuses {} rows", format::count(copy.refused)), "status"),
        (
            "unproven",
            is_unproven && !is_known,
            format!("the published copy is not proven equal since {}", since.map_or(String::new(), format::moment)),
            "publish --verify",
        ),
    ] {
        let after = if about == "unproven" { UNCOMPARED_FOR } else { LATE_FOR };
        let episode = Episode { after, ..Episode::new(text, config.command(verb)) };
        add(found, Subject::Publishing, holds.then_some(about), episode);
    }
}

fn open(object: &ObjectStatus) -> u64 {
    object.differences + object.undecided.map_or(0, |undecided| undecided.items)
}

fn incomplete(reply: &StatusReply, config: &Config, told: &Told, now: Instant) -> (Vec<&'static str>, Episode) {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let begun = daemon.map_or(now, |daemon| daemon.since);
    let late = |object: &&ObjectStatus| {
        let due = schedule::next_check(&config.sync, object.object, object.complete_as_of.unwrap_or(begun));
        // What is not read at all is not checked either, which is told as the lists being late.
        let is_read = overdue(object, daemon, config, now).is_none_or(|overdue| overdue <= LATE[0]);
        let is_known = open(object) > 0 || object.outage.is_some();
        let is_told = told.since(Subject::Incomplete, object.object.as_str()).is_some();
        (is_read && !is_known || is_told) && due.is_some_and(|due| now.since(due) > CHECK_LATE)
    };
    let names: Vec<&'static str> = status.mirrored(config).filter(late).map(|object| object.object.as_str()).collect();
    let text = format!("nobody knows whether {} are complete: the check is late", names.join(", "));
    (names, Episode { after: CHECK_LATE_FOR, ..Episode::new(text, config.command("verify")) })
}

/// How late an object is by its own schedule; `None` if it has none.
fn overdue(object: &ObjectStatus, daemon: Option<&DaemonStatus>, config: &Config, now: Instant) -> Option<Duration> {
    let poll = daemon.and_then(DaemonStatus::poll_interval);
    let begun = daemon.map_or(now, |daemon| daemon.since);
    let due = schedule::next_read(&config.sync, object.object, object.changes_as_of.unwrap_or(begun), poll);
    due.map(|due| now.since(due))
}

fn stale(reply: &StatusReply, config: &Config, told: &Told, now: Instant) -> (Vec<&'static str>, Episode) {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let trouble = daemon.and_then(|daemon| daemon.trouble.as_ref());
    let paused = daemon.and_then(|daemon| daemon.paused_since);
    let is_told = |about| told.since(Subject::Stale, about).is_some();
    let of_one = paused.is_none() && status.hold_until.is_none() && trouble.is_some_and(|trouble| trouble.partial);
    // What keeps everything from being read is told once, whenever each object is late.
    let about =
        |object: &ObjectStatus| Some(object.object.as_str()).filter(|name| of_one || is_told(name)).unwrap_or("");
    let late = |object: &&ObjectStatus| {
        let copying = object.sweep.is_some_and(|sweep| sweep.first_copy) && trouble.is_none();
        let [unexplained, held, excused] = LATE;
        let allowed = if is_told(about(object)) {
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
    let names: Vec<&str> = objects.iter().map(|object| object.object.as_str()).collect();
    let read = objects.iter().map(|object| object.changes_as_of).min().flatten().map_or("never".into(), format::moment);
    let (why, fix) = match (paused, status.hold_until, trouble) {
        (Some(_), ..) => ("the schedule is paused", config.command("resume")),
        (None, Some(_), _) => ("rate limits of the service", config.command("status")),
        (None, None, Some(trouble)) => (public_reason(trouble.exit), config.command("status")),
        (None, None, None) => ("no run completed", config.command("status")),
    };
    let text = format!("{} last read {read}: {why}", names.join(", "));
    (objects.into_iter().map(about).collect(), Episode { after: LATE_FOR, ..Episode::new(text, fix) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::notification::told::Lasting;
    use crate::daemon::notification::told::tests::config;
    use crate::daemon::state_machine::Trouble;

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
            open: subjects.iter().map(|subject| (*subject, [(String::new(), lasting)].into())).collect(),
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

    #[test]
    fn what_keeps_everything_from_being_read_is_one_episode() {
        let mut config = config();
        let (mut reply, at) = reply(&mut config, 60, Some(Exit::Unavailable));
        let about = |reply: &StatusReply, told: &Told| {
            let found = now(reply, &config, told, at).remove(&Subject::Stale);
            found.map(|found| Vec::from_iter(found.into_keys()).join(" "))
        };
        let told = |about: &str| Told {
            open: [(Subject::Stale, [(about.to_string(), Lasting { since: at, told: true })].into())].into(),
            fields_after: None,
        };
        assert_eq!(about(&reply, &Told::default()).as_deref(), Some(""));
        assert_eq!(about(&reply, &told("contacts")).as_deref(), Some(" contacts"));
        reply.daemon.as_mut().unwrap().trouble.as_mut().unwrap().partial = true;
        assert_eq!(about(&reply, &told("contacts")).as_deref(), Some("companies contacts"));
        // What was told of all lasts in the objects, though the budget explains them now.
        let left = std::mem::take(&mut reply.status.ru.left);
        assert_eq!(about(&reply, &told("")).as_deref(), Some(""));
        reply.status.ru.left = left;
        // A hold that explains it is no reason to tell of another object.
        reply.status.hold_until = Some(at);
        assert_eq!(about(&reply, &told("contacts")).as_deref(), Some("contacts"));
    }
}
