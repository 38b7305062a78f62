//! What is reported to people: episodes that begin and end. Pure: the status and the time in, sentences out.
//!
//! No sentence contains a secret, a text of the service or a value of a record.

use std::time::Duration;

use super::reported::{Episode, Reported, Subject};
use crate::app::ages;
use crate::app::status::ObjectStatus;
use crate::config::Config;
use crate::daemon::status_reply::{DaemonStatus, StatusReply, public_reason};
use crate::exit::Exit;
use crate::format;
use crate::model::Instant;
use crate::store::PublishLag;

/// How late an object may be, by what explains it: nothing, a hold, or a pause and a first copy.
const LATE: [Duration; 3] = [ages::LATE, Duration::from_secs(3600), Duration::from_secs(86_400)];

const CHECK_LATE: Duration = Duration::from_secs(21_600);

const BEHIND: u64 = 900;

/// How long ago a published copy may have been compared: that is done once a day, and may be under way.
const UNCOMPARED: Duration = Duration::from_secs(180_000);

/// The episodes of the moment, by the rules of `docs/monitoring/alerts.yml`. One whose beginning was reported lasts until it is
/// known to be over, whatever explains it meanwhile.
pub(super) fn now(reply: &StatusReply, config: &Config, reported: &Reported, now: Instant) -> Vec<Episode> {
    let all = conditions(reply, config, reported, now);
    let lasts = |of: &&Episode| {
        reported.since(of.subject, &of.about).is_some() || !all.iter().any(|other| of.is_explained_by(other))
    };
    let mut found: Vec<Episode> = all.iter().filter(lasts).cloned().collect();
    // Only what was read since shows that the key is accepted: a failure of another kind, a reload, a run without a
    // request and a restart end the trouble, too.
    let is_read_since = |since| reply.status.objects.iter().any(|object| object.changes_as_of > Some(since));
    let was_refused = reported.since(Subject::KeyRefused, "").is_some_and(|since| !is_read_since(since));
    if was_refused && found.iter().all(|of| of.subject != Subject::KeyRefused) {
        found.push(key_refused(config));
    }
    found
}

fn key_refused(config: &Config) -> Episode {
    let text = "the API key is refused, or has no scope: nothing is mirrored";
    Episode::new(Subject::KeyRefused, "", text, config.command("check"))
}

fn conditions(reply: &StatusReply, config: &Config, reported: &Reported, now: Instant) -> Vec<Episode> {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let mut found = Vec::new();
    let trouble = daemon.and_then(|daemon| daemon.trouble.as_ref());
    found.extend(trouble.filter(|of| of.exit == Exit::KeyRefused.code()).map(|_| key_refused(config)));
    if status.ru.left == 0 {
        let text = format!("the budget is spent; the window ends at {}", format::moment(status.ru.refills_at));
        found.push(Episode::new(Subject::BudgetSpent, "", text, "raise `budget.limit`, or poll less often"));
    }
    found.extend(["", SHORT_LISTS].into_iter().filter_map(|about| stale(about, reply, config, reported, now)));
    found.extend(incomplete(reply, config, reported, now));
    for object in &status.objects {
        found.extend(removals(object, config));
    }
    let edits = &status.edits;
    for (state, count) in [("held", edits.held), ("in conflict", edits.conflict), ("rejected", edits.rejected)] {
        if count > 0 {
            let text = format!("{} {state}", format::counted(count, "edit is", "edits are"));
            found.push(Episode::new(Subject::Edits, state, text, config.command("outbox")));
        }
    }
    for missing in &status.missing_scopes {
        let text = format!("the API key lacks {}", missing.scope);
        found.push(Episode::new(Subject::MissingScope, &missing.scope, text, config.command("check")));
    }
    if daemon.is_some_and(|daemon| daemon.reload_failed) {
        let text = "the configuration on disk is not active; the old one is";
        found.push(Episode::new(Subject::ReloadFailed, "", text, config.command("check --offline")));
    }
    found.extend(status.publish.iter().flat_map(|copy| publishing(copy, config, now)));
    found
}

fn removals(object: &ObjectStatus, config: &Config) -> Vec<Episode> {
    let name = object.object.as_str();
    let mut found = Vec::new();
    if let Some(outage) = object.outage {
        let (going, of) = (format::count(outage.going), format::count(outage.of));
        let text = format!("{going} of {of} {name} vanished from the service at once; nothing was removed");
        let fix = format!("if they are really gone, {}", config.command(&format!("resync {name} --accept-removals")));
        found.push(Episode::new(Subject::RefusedRemovals, name, text, fix));
    }
    if open(object) > 0 {
        let count = format::count(open(object));
        let text = format!("{count} {name} differ from the service, or may differ, for half a day");
        found.push(Episode::new(Subject::Differences, name, text, config.command(&format!("resync {name}"))));
    }
    found
}

fn publishing(lag: &PublishLag, config: &Config, now: Instant) -> impl Iterator<Item = Episode> {
    let PublishLag { seconds, progress: copy, .. } = lag;
    let (late, count) = (format::duration(Duration::from_secs(*seconds)), format::count(copy.proof.differences));
    let since = copy.unproven_since().filter(|since| now.since(*since) > UNCOMPARED);
    let is_known = *seconds > BEHIND || copy.proof.differences > 0 || copy.refused > 0;
    let unproven = since.map_or(String::new(), format::moment);
    let unproven = format!("the published copy is not proven equal since {unproven}");
    let differs = format!("the published copy differs from the mirror in {count} values");
    let faults = [
        ("behind", *seconds > BEHIND, format!("the published copy is {late} behind"), "publish"),
        ("differs", copy.proof.differences > 0, differs, "publish --verify --repair"),
        ("refused", copy.refused > 0, format!("PostgreSQL refuses {} rows", format::count(copy.refused)), "status"),
        ("unproven", since.is_some() && !is_known, unproven, "publish --verify"),
    ];
    faults
        .into_iter()
        .filter(|(_, holds, ..)| *holds)
        .map(|(about, _, text, verb)| Episode::new(Subject::Publishing, about, text, config.command(verb)))
}

fn open(object: &ObjectStatus) -> u64 {
    object.differences + object.undecided.map_or(0, |undecided| undecided.items)
}

fn incomplete(reply: &StatusReply, config: &Config, reported: &Reported, now: Instant) -> Option<Episode> {
    let is_reported = reported.since(Subject::Incomplete, "").is_some();
    let late = |object: &&ObjectStatus| {
        let due = ages::next_check(&config.sync, object.object, object.complete_as_of.unwrap_or(reply.begun(now)));
        // What is not read at all is not checked either, which is reported as the lists being late.
        let is_read = overdue(object, reply, config, now).is_none_or(|overdue| overdue <= LATE[0]);
        let is_known = open(object) > 0 || object.outage.is_some();
        (is_read && !is_known || is_reported) && due.is_some_and(|due| now.since(due) > CHECK_LATE)
    };
    let names = names(reply.status.mirrored(config).filter(late))?;
    let text = format!("nobody knows whether {names} are complete: the check is late");
    Some(Episode::new(Subject::Incomplete, "", text, config.command("verify")))
}

fn names<'a>(objects: impl Iterator<Item = &'a ObjectStatus>) -> Option<String> {
    let names: Vec<&str> = objects.map(|object| object.object.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// How late an object is by its own schedule; `None` if it has none.
fn overdue(object: &ObjectStatus, reply: &StatusReply, config: &Config, now: Instant) -> Option<Duration> {
    let poll = reply.daemon.as_ref().and_then(DaemonStatus::poll_interval);
    let read = object.changes_as_of.unwrap_or(reply.begun(now));
    ages::next_read(&config.sync, object.object, read, poll).map(|due| now.since(due))
}

/// The lists of team members and definitions: what keeps them from being read may keep nothing else.
const SHORT_LISTS: &str = "short lists";

/// What keeps objects from being read is reported once, whichever they are and whenever each of them is late.
fn stale(about: &str, reply: &StatusReply, config: &Config, reported: &Reported, now: Instant) -> Option<Episode> {
    let (status, daemon) = (&reply.status, reply.daemon.as_ref());
    let trouble = daemon.and_then(|daemon| daemon.trouble.as_ref());
    let paused = daemon.and_then(|daemon| daemon.paused_since);
    let is_reported = reported.since(Subject::Stale, about).is_some();
    let late = |object: &&ObjectStatus| {
        if object.object.object().is_none() == about.is_empty() {
            return false;
        }
        let copying = object.sweep.is_some_and(|sweep| sweep.first_copy) && trouble.is_none();
        let [unexplained, held, excused] = LATE;
        let allowed = match status.hold_until {
            _ if is_reported => unexplained,
            _ if paused.is_some() || copying => excused,
            Some(_) => held,
            None => unexplained,
        };
        overdue(object, reply, config, now).is_some_and(|overdue| overdue > allowed)
    };
    let objects: Vec<&ObjectStatus> = status.mirrored(config).filter(late).collect();
    let names = names(objects.iter().copied())?;
    let read = objects.iter().map(|object| object.changes_as_of).min().flatten().map_or("never".into(), format::moment);
    let (why, verb) = match (paused, status.hold_until, trouble) {
        (Some(_), ..) => ("the schedule is paused", "resume"),
        (None, Some(_), _) => ("rate limits of the service", "status"),
        (None, None, Some(trouble)) => (public_reason(trouble.exit), "status"),
        (None, None, None) => ("no run completed", "status"),
    };
    Some(Episode::new(Subject::Stale, about, format!("{names} last read {read}: {why}"), config.command(verb)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Sources};
    use crate::daemon::notification::reported::Lasting;
    use crate::daemon::state_machine::Trouble;

    fn config() -> Config {
        let (environment, flags) = (Environment::default(), Vec::new());
        Config::load(&Sources { file: None, default_file: "/nowhere".into(), environment, flags }).unwrap()
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
            ..DaemonStatus::new(None, at, &jiff::tz::TimeZone::UTC)
        };
        (StatusReply { status, daemon: Some(daemon) }, at)
    }

    #[test]
    fn what_explains_an_episode_keeps_it_from_beginning_and_does_not_end_it() {
        use Subject::{BudgetSpent, KeyRefused, Stale};
        let mut config = config();
        // Half an hour before the status.
        let since: Instant = "2026-03-04T11:30:00Z".parse().unwrap();
        let lasting =
            |subject: &Subject| Lasting { subject: *subject, about: "".into(), since, reported: Some("t".into()) };
        let reported =
            |subjects: &[Subject]| Reported { open: subjects.iter().map(lasting).collect(), fields_after: None };
        let mut check = |minutes: u64, exit: Option<Exit>, change: fn(&mut StatusReply), expected: [&[Subject]; 2]| {
            let (mut reply, at) = reply(&mut config, minutes, exit);
            change(&mut reply);
            let found =
                [reported(&[]), reported(&[Stale, KeyRefused])].map(|reported| now(&reply, &config, &reported, at));
            let subjects = found.map(|found| std::collections::BTreeSet::from_iter(found.iter().map(|of| of.subject)));
            assert_eq!(subjects.map(Vec::from_iter), expected.map(<[Subject]>::to_vec));
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
