//! What people were told: which episodes last, and the messages that are due.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::model::{Instant, instant};

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
    pub(super) const fn explained_by(self) -> &'static [Subject] {
        match self {
            Subject::BudgetSpent => &[Subject::KeyRefused],
            Subject::Stale => &[Subject::KeyRefused, Subject::BudgetSpent],
            Subject::Incomplete => &[Subject::KeyRefused, Subject::BudgetSpent, Subject::Stale],
            _ => &[],
        }
    }

    const fn over(self) -> &'static str {
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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// The episodes by what they are about, such as an object or a scope; two that are the same are told together.
pub(super) type Found = BTreeMap<Subject, BTreeMap<String, Episode>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lasting {
    pub since: Instant,
    pub told: bool,
}

/// What the mirror stores, so that a restart neither repeats a message nor begins to wait again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// By what they are about. One that was told is kept until no other of its subject lasts.
    pub open: BTreeMap<Subject, BTreeMap<String, Lasting>>,
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
    #[serde(skip)]
    abouts: BTreeSet<String>,
}

impl Notice {
    /// The message about an episode that begins; without one, that the subject is over.
    pub(super) fn new(config: &Config, subject: Subject, episode: Option<Episode>, since: Instant) -> Notice {
        let workspace = config.workspace();
        let (state, said) = match &episode {
            Some(Episode { text, fix, .. }) => ("begins", format!("{text}; fix: {fix}")),
            None => ("over", format!("over: {}", subject.over())),
        };
        let text = format!("{}: {said}", sender(&workspace));
        let fix = episode.map(|episode| episode.fix);
        Notice { workspace, episode: subject, state, since, text, fix, abouts: BTreeSet::new() }
    }
}

/// Who writes. The configuration file of a single mirror has the name of the program.
fn sender(workspace: &str) -> String {
    if workspace == "crm-mirror" { workspace.into() } else { format!("crm-mirror {workspace}") }
}

impl Told {
    /// Since when an episode lasts that was told.
    pub(super) fn since(&self, subject: Subject, about: &str) -> Option<Instant> {
        let lasting = self.open.get(&subject)?.get(about)?;
        lasting.told.then_some(lasting.since)
    }

    /// Records which episodes last. One that ends before it was told is forgotten.
    pub(super) fn observe(&mut self, found: &Found, now: Instant) {
        self.open.retain(|subject, known| {
            let of = found.get(subject);
            known.retain(|about, episode| episode.told || of.is_some_and(|of| of.contains_key(about)));
            !known.is_empty()
        });
        for (subject, of) in found {
            let known = self.open.entry(*subject).or_default();
            for about in of.keys() {
                let episode = known.entry(about.clone()).or_insert(Lasting { since: now, told: false });
                // A clock that was set back would make it wait for longer.
                episode.since = episode.since.min(now);
            }
        }
    }

    /// The messages that are due. An end is told only if `may_end`: a daemon that has just started has not tried yet what
    /// failed before.
    pub(super) fn due(&self, found: &Found, may_end: bool, config: &Config, now: Instant) -> Vec<Notice> {
        let notice = |(subject, known): (&Subject, &BTreeMap<String, Lasting>)| {
            let Some(of) = found.get(subject) else {
                let since = known.values().map(|lasting| lasting.since).min()?;
                return may_end.then(|| Notice::new(config, *subject, None, since));
            };
            let is_due = |(about, episode): &(&String, &Episode)| {
                let lasting = known.get(*about).filter(|lasting| !lasting.told);
                lasting.is_some_and(|lasting| now.since(lasting.since) >= episode.after)
            };
            let due: BTreeSet<&Episode> = of.iter().filter(is_due).map(|(_, episode)| episode).collect();
            let told = of.iter().filter(|(_, episode)| due.contains(episode));
            let abouts: BTreeSet<String> = told.map(|(about, _)| about.clone()).collect();
            let since = abouts.iter().filter_map(|about| Some(known.get(about)?.since)).min()?;
            let texts: BTreeSet<&str> = due.iter().map(|episode| &*episode.text).collect();
            let fixes: BTreeSet<&str> = due.iter().map(|episode| &*episode.fix).collect();
            let all = Episode::new(Vec::from_iter(texts).join("; "), Vec::from_iter(fixes).join(", "));
            Some(Notice { abouts, ..Notice::new(config, *subject, Some(all), since) })
        };
        self.open.iter().filter_map(notice).collect()
    }

    /// Records that a message was delivered; `newest` is the last entry of the feed that it is about.
    pub(super) fn delivered(&mut self, notice: &Notice, newest: u64) {
        match (notice.episode, notice.state) {
            (Subject::Fields, _) => self.fields_after = Some(newest),
            (subject, "begins") => {
                let lasting = Lasting { since: notice.since, told: true };
                let abouts = notice.abouts.iter().map(|about| (about.clone(), lasting));
                self.open.entry(subject).or_default().extend(abouts);
            }
            (subject, _) => _ = self.open.remove(&subject),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::{Environment, Sources};

    pub(in crate::daemon::notification) fn config() -> Config {
        let (environment, flags) = (Environment::default(), Vec::new());
        Config::load(&Sources { file: None, default_file: "/nowhere".into(), environment, flags }).unwrap()
    }

    #[test]
    fn message_names_the_program_once() {
        assert_eq!(["acme", "crm-mirror"].map(sender), ["crm-mirror acme", "crm-mirror"]);
    }

    fn found(subjects: &[(Subject, &str, Duration)]) -> Found {
        let mut found = Found::new();
        for (subject, about, after) in subjects {
            let episode = Episode { after: *after, ..Episode::new(format!("t {about}"), "f") };
            found.entry(*subject).or_default().insert(about.to_string(), episode);
        }
        found
    }

    #[test]
    fn an_episode_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let (config, at) = (config(), Instant::EPOCH);
        let mut told = Told::default();
        let mut step = |subjects: &[Subject], may_end: bool| {
            let found = found(&Vec::from_iter(subjects.iter().map(|subject| (*subject, "", Duration::ZERO))));
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
    fn what_begins_while_another_lasts_is_told_and_the_end_when_none_lasts() {
        let (config, hour) = (config(), Duration::from_secs(3600));
        let (mut told, mut hours) = (Told::default(), 0);
        let mut step = |abouts: &[&str]| {
            let found = found(&Vec::from_iter(abouts.iter().map(|about| (Subject::Differences, *about, 2 * hour))));
            let now = Instant::EPOCH.plus(hours * hour);
            hours += 1;
            told.observe(&found, now);
            let due = told.due(&found, true, &config, now);
            due.iter().for_each(|notice| told.delivered(notice, 0));
            assert!(due.len() < 2, "{due:?}");
            let text =
                |notice: &Notice| notice.text.split(": ").nth(1).unwrap().split("; fix").next().unwrap().to_string();
            due.first().map_or("".into(), text)
        };
        let contacts = ["contacts"];
        assert_eq!([&contacts, &contacts, &contacts, &contacts].map(|of| step(of)), ["", "", "t contacts", ""]);
        // Each has its own time; the end of one is none while another lasts, and is not told again.
        let both = ["companies", "contacts"];
        assert_eq!([&both, &both, &both].map(|of| step(of)), ["", "", "t companies"]);
        assert_eq!([&both[..1], &both, &[], &[]].map(&mut step), ["", "", "over", ""]);
        // What ended before it was told leaves the one that was told.
        assert_eq!([&contacts[..], &contacts, &contacts].map(&mut step), ["", "", "t contacts"]);
        assert_eq!([&both[..1], &[]].map(&mut step), ["", "over"]);
        assert_eq!([&both, &both, &both].map(|of| step(of)), ["", "", "t companies; t contacts"]);
    }

    #[test]
    fn an_episode_lasts_across_restarts_and_a_clock_that_is_set_back() {
        let (config, half_a_day) = (config(), Duration::from_secs(43_200));
        let (found, late) = (found(&[(Subject::Differences, "", half_a_day)]), Instant::EPOCH.plus(10 * half_a_day));
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
        told.observe(&Found::new(), now);
        assert_eq!(told, Told::default(), "nothing was told, so nothing is over");
    }
}
