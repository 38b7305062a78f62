//! What was reported to people: which episodes last, and the messages that are due.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::Config;
use crate::model::Instant;

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
    /// How many seconds it lasts before it is reported, and what explains it: while one of these lasts, it does not begin.
    const fn rule(self) -> (u64, &'static [Subject]) {
        match self {
            // Less may pass until the run that is due has ended.
            Subject::Stale => (300, &[Subject::KeyRefused, Subject::BudgetSpent, Subject::Stale]),
            Subject::Incomplete => (900, &[Subject::KeyRefused, Subject::BudgetSpent, Subject::Stale]),
            // The next runs repair what they can.
            Subject::Differences => (43_200, &[Subject::RefusedRemovals]),
            Subject::Publishing => (300, &[]),
            Subject::BudgetSpent => (0, &[Subject::KeyRefused]),
            _ => (0, &[]),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Episode {
    pub subject: Subject,
    /// What it is about, such as an object or a scope; empty for everything.
    pub about: String,
    pub text: String,
    pub fix: String,
}

impl Episode {
    pub(super) fn new(subject: Subject, about: &str, text: impl Into<String>, fix: impl Into<String>) -> Episode {
        Episode { subject, about: about.into(), text: text.into(), fix: fix.into() }
    }

    pub(super) fn is_explained_by(&self, other: &Episode) -> bool {
        let (_, explained_by) = self.subject.rule();
        let is_of_all = other.about.is_empty() && (other.subject, &other.about) != (self.subject, &self.about);
        explained_by.contains(&other.subject)
            && (is_of_all || other.about == self.about && other.subject != self.subject)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lasting {
    pub subject: Subject,
    pub about: String,
    pub since: Instant,
    pub reported: Option<String>,
}

/// What the mirror stores, so that a restart neither repeats a message nor begins to wait again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reported {
    /// One that was reported is kept until its end was reported.
    pub open: Vec<Lasting>,
    /// The entry of the feed up to which changes of fields were reported.
    pub fields_after: Option<u64>,
}

/// A message: that an episode begins, or that it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub episode: Episode,
    pub since: Instant,
    pub is_over: bool,
}

impl Notice {
    /// The document that is delivered. Its `text` is the whole message, for programs that show one text.
    pub(super) fn document(&self, config: &Config) -> Value {
        let (workspace, since, Episode { subject, text, fix, .. }) = (config.workspace(), self.since, &self.episode);
        let (state, text, fix) = match self.is_over {
            false => ("begins", format!("{}: {text}; fix: {fix}", sender(&workspace)), Some(fix)),
            true => ("over", format!("{}: over: {text}", sender(&workspace)), None),
        };
        json!({"workspace": workspace, "episode": subject, "state": state, "since": since, "text": text, "fix": fix})
    }
}

/// Who writes. The configuration file of a single mirror has the name of the program.
fn sender(workspace: &str) -> String {
    if workspace == "crm-mirror" { workspace.into() } else { format!("crm-mirror {workspace}") }
}

impl Reported {
    fn position(&self, subject: Subject, about: &str) -> Option<usize> {
        self.open.iter().position(|known| known.subject == subject && known.about == about)
    }

    /// Since when an episode lasts that was reported.
    pub(super) fn since(&self, subject: Subject, about: &str) -> Option<Instant> {
        let lasting = &self.open[self.position(subject, about)?];
        lasting.reported.is_some().then_some(lasting.since)
    }

    /// Records which episodes last. One that ends before it was reported is forgotten.
    pub(super) fn observe(&mut self, found: &[Episode], now: Instant) {
        let is = |known: &Lasting, of: &Episode| known.subject == of.subject && known.about == of.about;
        self.open.retain(|known| known.reported.is_some() || found.iter().any(|of| is(known, of)));
        for Episode { subject, about, .. } in found {
            match self.position(*subject, about) {
                // A clock that was set back would make it wait for longer.
                Some(place) => self.open[place].since = self.open[place].since.min(now),
                None => self.open.push(Lasting { subject: *subject, about: about.clone(), since: now, reported: None }),
            }
        }
    }

    /// The messages that are due. Its end is reported only if `may_end`: a daemon that has just started has not tried yet what
    /// failed before.
    pub(super) fn due(&self, found: &[Episode], may_end: bool, now: Instant) -> Vec<Notice> {
        let notice = |known: &Lasting| {
            let Lasting { subject, about, since, reported } = known.clone();
            let Some(episode) = found.iter().find(|of| subject == of.subject && about == of.about) else {
                let episode = Episode::new(subject, &about, reported?, "");
                return may_end.then_some(Notice { episode, since, is_over: true });
            };
            let (after, _) = subject.rule();
            let is_due = reported.is_none() && now.since(since) >= Duration::from_secs(after);
            is_due.then(|| Notice { episode: episode.clone(), since, is_over: false })
        };
        self.open.iter().filter_map(notice).collect()
    }

    pub(super) fn delivered(&mut self, Notice { episode, is_over, .. }: &Notice) {
        match self.position(episode.subject, &episode.about) {
            Some(place) if *is_over => _ = self.open.remove(place),
            Some(place) => self.open[place].reported = Some(episode.text.clone()),
            None => {}
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

    fn state(notice: &Notice) -> &'static str {
        if notice.is_over { "over" } else { "begins" }
    }

    const DIFFERENCES: Subject = Subject::Differences;

    fn found(subjects: &[(Subject, &str)]) -> Vec<Episode> {
        subjects.iter().map(|(subject, about)| Episode::new(*subject, about, format!("t {about}"), "f")).collect()
    }

    #[test]
    fn an_episode_is_reported_once_when_it_begins_and_once_when_it_is_over() {
        let at = Instant::EPOCH;
        let (spent, edits) = ((Subject::BudgetSpent, ""), (Subject::Edits, ""));
        let mut reported = Reported::default();
        let mut step = |subjects: &[(Subject, &str)], may_end: bool| {
            let found = found(subjects);
            reported.observe(&found, at);
            let due = reported.due(&found, may_end, at);
            due.iter().for_each(|notice| reported.delivered(notice));
            due.iter().map(|notice| (notice.episode.subject, state(notice))).collect::<Vec<_>>()
        };
        assert_eq!(step(&[spent], true), [(Subject::BudgetSpent, "begins")]);
        assert_eq!(step(&[spent, edits], true), [(Subject::Edits, "begins")]);
        assert_eq!(step(&[spent], false), [], "not tried yet");
        assert_eq!(step(&[spent], true), [(Subject::Edits, "over")]);
        assert_eq!(step(&[], true), [(Subject::BudgetSpent, "over")]);
        assert_eq!(step(&[], true), []);
    }

    #[test]
    fn each_object_has_its_own_beginning_and_end() {
        let (config, hour) = (config(), Duration::from_secs(3600));
        let (mut reported, mut hours) = (Reported::default(), 0);
        let mut step = |abouts: &[&str]| {
            let found = found(&Vec::from_iter(abouts.iter().map(|about| (DIFFERENCES, *about))));
            let now = Instant::EPOCH.plus(hours * hour);
            hours += 6;
            reported.observe(&found, now);
            let due = reported.due(&found, true, now);
            due.iter().for_each(|notice| reported.delivered(notice));
            let text = |notice: &Notice| notice.document(&config)["text"].as_str().unwrap().to_string();
            let texts = due.iter().map(|notice| text(notice).strip_prefix("crm-mirror default: ").unwrap().to_string());
            texts.collect::<Vec<_>>().join("; ").replace("; fix: f", "")
        };
        let contacts = ["contacts"];
        assert_eq!([&contacts, &contacts, &contacts, &contacts].map(|of| step(of)), ["", "", "t contacts", ""]);
        let both = ["companies", "contacts"];
        assert_eq!([&both, &both, &both].map(|of| step(of)), ["", "", "t companies"]);
        assert_eq!([&both[..1], &[], &[]].map(&mut step), ["over: t contacts", "over: t companies", ""]);
        // What ended before it was reported begins again.
        assert_eq!([&contacts[..], &[], &contacts, &contacts].map(&mut step), ["", "", "", ""]);
    }

    #[test]
    fn an_episode_lasts_across_restarts_and_a_clock_that_is_set_back() {
        let half_a_day = Duration::from_secs(43_200);
        let (found, late) = (found(&[(DIFFERENCES, "")]), Instant::EPOCH.plus(10 * half_a_day));
        let mut reported = Reported::default();
        reported.observe(&found, late);
        assert_eq!(reported.due(&found, true, late), []);
        // Stored and read again, on a clock that is days behind.
        let mut reported: Reported = serde_json::from_str(&serde_json::to_string(&reported).unwrap()).unwrap();
        let begun = Instant::EPOCH;
        reported.observe(&found, begun);
        let now = begun.plus(half_a_day);
        reported.observe(&found, now);
        let due = reported.due(&found, true, now);
        assert_eq!(due.iter().map(|notice| (state(notice), notice.since)).collect::<Vec<_>>(), [("begins", begun)]);
        reported.observe(&[], now);
        assert_eq!(reported, Reported::default(), "nothing was reported, so nothing is over");
    }
}
