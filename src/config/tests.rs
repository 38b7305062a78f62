//! The configuration keys and their defaults, the order of the layers, and the errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use figment::providers::Format as _;
use jiff::tz::TimeZone;

use super::*;
use crate::api::ApiKey;
use crate::model::{Resource, Ru};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

struct Case {
    dir: tempfile::TempDir,
    env: Vec<(&'static str, String)>,
    flags: Vec<(&'static str, String)>,
    file: Option<PathBuf>,
}

fn case() -> Case {
    Case { dir: tempfile::tempdir().unwrap(), env: Vec::new(), flags: Vec::new(), file: None }
}

impl Case {
    fn env(mut self, name: &'static str, value: impl Into<String>) -> Case {
        self.env.push((name, value.into()));
        self
    }
    fn flag(mut self, key: &'static str, value: &str) -> Case {
        self.flags.push((key, value.into()));
        self
    }
    fn file(mut self, text: &str) -> Case {
        let path = self.dir.path().join("named.toml");
        fs::write(&path, text).unwrap();
        self.file = Some(path);
        self
    }
    fn path(&self) -> &Path {
        self.dir.path()
    }
    fn load(&self) -> Result<Config, ConfigError> {
        Config::load(&Sources {
            file: self.file.clone(),
            default_file: self.dir.path().join("config.toml"),
            environment: self.env.iter().cloned().collect(),
            flags: self.flags.clone(),
        })
    }
    fn error(&self) -> String {
        self.load().unwrap_err().to_string()
    }
}

#[test]
fn default_file_has_exactly_the_known_keys() {
    let (mut documented, mut known, mut section) = (Vec::new(), Vec::new(), "");
    // Those without a default are commented out.
    for line in DEFAULT_TOML.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, _)) = line.trim_start_matches('#').split_once(" = ")
            && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        {
            documented.push(format!("{section}.{key}"));
        }
    }
    for section in DEFAULT_TOML.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']')) {
        // The error for an unknown field lists the known ones.
        let text = format!("[{section}]\nzzz = 1\n");
        let error = figment::Figment::from(figment::providers::Toml::string(DEFAULT_TOML))
            .merge(figment::providers::Toml::string(&text))
            .extract::<Config>()
            .unwrap_err();
        let figment::error::Kind::UnknownField(_, fields) = error.kind else { panic!("{error}") };
        known.extend(fields.iter().map(|field| format!("{section}.{field}")));
    }
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    assert_eq!(sorted(documented), sorted(known));
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = case().load().unwrap();
    assert_eq!(config.database, Path::new("mirror.db"));
    assert_eq!(config.socket, Path::new("mirror.db.sock"));
    assert_eq!(config.daemon.http, None);
    let day = 24 * HOUR;
    let budget = BudgetConfig { limit: Ru::new(10_000), window: day };
    assert_eq!(config.budget, budget);
    let sync = SyncConfig {
        exclude: Vec::new(),
        objects: None,
        schedule: ChangesSchedule::Cron(Cron::parse("0 */5 * * * *").unwrap()),
        min_interval: Duration::from_secs(15),
        audit_schedule: Some(Cron::parse("0 0 */6 * * *").unwrap()),
        definitions_schedule: Some(Cron::parse("0 0 */6 * * *").unwrap()),
        sweep_schedule: Some(Cron::parse("0 0 3 * * SUN").unwrap()),
        time_zone: TimeZone::get("UTC").unwrap(),
        overlap: 60 * SECOND,
        details: true,
        detail_max_age: Some(30 * day),
        max_removals: 0.2,
    };
    assert_eq!(config.sync, sync);
    assert_eq!(config.history.retention, Some(365 * day));
    assert!(!config.write_back.enabled);
    assert_eq!(config.write_back.max_edits, 100);
    assert_eq!((config.log.level.as_str(), config.log.format), ("info", LogFormat::Auto));
    assert!(config.api.base_url.is_none());
    let error = crate::app::MirrorSettings::new(config).unwrap_err();
    assert_eq!(error.to_string(), "`api.base_url` is not set");
    let api = with_key().load().unwrap().api;
    assert_eq!((api.concurrency, api.timeout), (8, 30 * SECOND));
}

#[test]
fn uncommented_default_file_is_valid() {
    let text = DEFAULT_TOML.replace("\n#base_url", "\nbase_url").replace("\n#key_file", "\nkey_file");
    let text = text.replace("\n#path", "\npath").replace("\n#socket", "\nsocket");
    let text = text.replace("\n#http", "\nhttp").replace("\n#url_file", "\nurl_file");
    let config = case().file(&text).load().unwrap();
    assert_eq!(config.api.base_url.as_ref().unwrap().as_str(), "https://api.example.com/v1");
    assert_eq!(config.socket, Path::new("/run/crm-mirror/control.sock"));
    assert_eq!(config.daemon.http, Some("127.0.0.1:8787".parse().unwrap()));
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let text = "[api]\ntimeout = \"10s\"\nconcurrency = 7\n[log]\nlevel = \"warn\"\n";
    let case = with_key()
        .file(text)
        .env("CRM_MIRROR_API__CONCURRENCY", "9")
        .env("CRM_MIRROR_LOG__LEVEL", "debug")
        .flag("log.level", "trace");
    let config = case.load().unwrap();
    let api = &config.api;
    assert_eq!((api.concurrency, api.timeout), (9, 10 * SECOND));
    assert_eq!(config.log.level, "trace");
}

#[test]
fn default_file_is_optional_and_a_named_file_is_required() {
    let mut case = case();
    fs::write(case.path().join("config.toml"), "[budget]\nlimit = 50\n").unwrap();
    assert_eq!(case.load().unwrap().budget.limit, Ru::new(50));
    case.file = Some(case.path().join("absent.toml"));
    assert!(case.error().starts_with("could not read the configuration file "));
}

#[test]
fn relative_paths_of_a_file_are_relative_to_it() {
    let text = "[database]\npath = \"data/m.db\"\n[daemon]\nsocket = \"/run/s\"\n[api]\nkey_file = \"key\"\n";
    let case = case().file(text);
    let config = case.load().unwrap();
    assert_eq!(config.database, case.path().join("data/m.db"));
    assert_eq!(config.socket, Path::new("/run/s"));
    assert_eq!(config.key.place, SecretPlace::File(case.path().join("key")));
    let only = Case { dir: tempfile::tempdir().unwrap(), env: Vec::new(), flags: Vec::new(), file: None };
    let only = only.file("[budget]\nlimit = 50\n");
    let config = only.load().unwrap();
    assert_eq!(config.database, only.path().join("mirror.db"), "the default too");
    assert_eq!(config.socket, only.path().join("mirror.db.sock"));
    let case = case.env("CRM_MIRROR_DATABASE__PATH", "x.db").flag("daemon.socket", "y.sock");
    let config = case.load().unwrap();
    assert_eq!((config.database, config.socket), (PathBuf::from("x.db"), PathBuf::from("y.sock")));
}

#[test]
fn webhook_is_never_shown() {
    let secret = "https://hooks.example.com/T0/secret";
    let config = case().env("CRM_MIRROR_NOTIFY__WEBHOOK", secret).load().unwrap();
    assert_eq!(config.notify.webhook.as_ref().map(|url| url.as_str()), Some(secret));
    assert!(!format!("{config:?}").contains("secret"));
    let both = case().env("CRM_MIRROR_NOTIFY__WEBHOOK", secret).env("CRM_MIRROR_NOTIFY__COMMAND", "mail").error();
    assert!(both.contains("`notify.command`") && !both.contains("secret"), "{both}");
}

#[test]
fn log_levels_are_words_or_lists_of_modules() {
    for (text, level) in
        [("WARN", "warn"), ("info, crm_mirror::api=debug", "info,crm_mirror::api=debug"), ("off", "off")]
    {
        assert_eq!(case().flag("log.level", text).load().unwrap().log.level, level);
    }
}

#[test]
fn five_fields_are_a_cron_line_with_second_zero() {
    let schedule = |line: &str| case().flag("sync.schedule", line).load().unwrap().sync.schedule;
    assert_eq!(schedule("*/10 * * * *"), schedule("0 */10 * * * *"));
}

#[test]
fn systemd_directories_are_the_defaults_of_a_unit() {
    let case = case().env("STATE_DIRECTORY", "/var/lib/a:/var/lib/b").env("RUNTIME_DIRECTORY", "/run/a");
    let config = case.load().unwrap();
    assert_eq!(config.database, Path::new("/var/lib/a/mirror.db"));
    assert_eq!(config.socket, Path::new("/run/a/control.sock"));
}

#[test]
fn page_address_must_be_loopback_without_http_allow() {
    let page = |address: &str| case().env("CRM_MIRROR_DAEMON__HTTP", address);
    for address in ["127.0.0.1:8787", "[::1]:8787", "127.0.0.1:0", "127.8.8.8:80"] {
        assert_eq!(page(address).load().unwrap().daemon.http, Some(address.parse().unwrap()));
    }
    assert_eq!(page("off").load().unwrap().daemon.http, None);
    for address in ["0.0.0.0:8787", "[::]:8787", "192.168.1.2:80", "[::ffff:127.0.0.1]:80"] {
        let error = page(address).error();
        assert!(error.contains("`daemon.http`") && error.contains("other machines could reach"), "{error}");
    }
    for address in ["localhost:8787", "8787", "127.0.0.1", "", "http://127.0.0.1:8787", "127.0.0.1:99999"] {
        assert!(page(address).error().contains("must be an address and a port"), "{address}");
    }
}

#[test]
fn texts_of_the_environment_are_not_parsed_as_numbers() {
    let case = case()
        .env("CRM_MIRROR_DATABASE__PATH", "0123456")
        .env("CRM_MIRROR_DAEMON__SOCKET", "[true]")
        .env("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
        .env("CRM_MIRROR_BUDGET__LIMIT", "12")
        .env("CRM_MIRROR_SYNC__OBJECTS", "companies, contacts");
    let config = case.load().unwrap();
    assert_eq!(config.database, Path::new("0123456"));
    assert_eq!(config.socket, Path::new("[true]"));
    assert!(config.write_back.enabled);
    assert_eq!(config.budget.limit, Ru::new(12));
    assert_eq!(config.sync.objects, Some(vec![Resource::Contacts, Resource::Companies]));
}

#[test]
fn unknown_keys_are_named_with_their_place() {
    let unknown = case().file("[api]\ntiemout = \"1s\"\n");
    let path = unknown.file.clone().unwrap();
    assert_eq!(unknown.error(), format!("unknown key `api.tiemout` in {}", path.display()));
    let section = case().file("timeout = 3\n");
    assert!(section.error().starts_with("unknown key `timeout` in "), "{}", section.error());
    let variable = case().env("CRM_MIRROR_SYNC__OVERLAPS", "1s");
    assert_eq!(variable.error(), "unknown key `sync.overlaps` in the variable CRM_MIRROR_SYNC__OVERLAPS");
    assert!(case().env("CRM_MIRROR_X", "1").error().contains("CRM_MIRROR_X"));
    assert!(case().env("OTHER_X__Y", "1").load().is_ok());
}

#[test]
fn invalid_values_are_reported_with_place_and_reason() {
    for (text, reason) in [
        ("[api]\nconcurrency = 0", "must be a whole number from 1 to 64"),
        ("[api]\nconcurrency = \"many\"", "must be a whole number from 1 to 64"),
        ("[api]\ntimeout = 30", "must be a number and a unit"),
        ("[api]\ntimeout = \"2h\"", "must be from 1s to 1h"),
        ("[api]\nbase_url = \"http://crm.example.com/v1\"", "plain http is allowed on loopback only"),
        ("[budget]\nlimit = 9", "must be a whole number from 10 to 1000000000000"),
        ("[budget]\nlimit = -1", "must be a whole number"),
        ("[write_back]\nenabled = \"maybe\"", "must be true or false"),
        ("[sync]\nschedule = \"*/5 * * *\"", "it has five fields, six with the seconds first"),
        ("[sync]\ntime_zone = \"Mars/Olympus\"", "must be a time zone"),
        ("[sync]\ntime_zone = \"localtime\"", "must be a time zone"),
        ("[sync]\ntime_zone = \"Factory\"", "must be a time zone"),
        ("[sync]\ntime_zone = \"Etc/Unknown\"", "must be a time zone"),
        ("[sync]\nsweep_schedule = \"0 0 0 30 2 *\"", "never fires again"),
        ("[sync]\naudit_schedule = \"0 0 0 1 1 * 2020\"", "never fires again"),
        ("[sync]\nobjects = []", "must be \"all\" or a list of contacts, companies"),
        ("[sync]\nobjects = [\"deals\"]", "must be \"all\" or a list of contacts, companies"),
        ("[sync]\ndetails = \"some\"", "must be \"all\" or \"off\""),
        ("[sync]\nmax_removals = 2", "must be a number from 0 to 1"),
        ("[log]\nlevel = \"a=b=c\"", "must be error, warn"),
        ("[log]\nlevel = \"warning\"", "must be error, warn"),
        ("[log]\nlevel = \"info,verbose\"", "must be error, warn"),
        ("[notify]\nwebhook = \"http://example.com/hook\"", "must be an https:// address"),
        ("[notify]\ncommand = [\"\"]", "must be a list"),
        ("[notify]\ncommand = []", "must be a list"),
        ("[database]\npath = \"\"", "is empty"),
    ] {
        let case = case().file(text);
        let error = case.error();
        assert!(error.contains(reason) && error.contains("named.toml"), "{text}: {error}");
    }
    let error = case().env("CRM_MIRROR_API__TIMEOUT", "soon").error();
    assert!(error.starts_with("`api.timeout` in the variable CRM_MIRROR_API__TIMEOUT must be"), "{error}");
}

#[test]
fn schedules_can_be_off_and_ages_unlimited() {
    let config = case()
        .file(
            "[sync]\nsweep_schedule = \"off\"\ndetail_max_age = \"0\"\nmax_removals = 1\n[history]\nretention = \"0\"",
        )
        .load()
        .unwrap();
    assert_eq!((config.sync.sweep_schedule, config.sync.detail_max_age, config.history.retention), (None, None, None));
}

const SECRET: &str = "svc_v1_very-hidden";

fn with_key() -> Case {
    with_url().env("CRM_MIRROR_API__KEY", SECRET)
}

fn with_url() -> Case {
    case().env("CRM_MIRROR_API__BASE_URL", "https://api.example.com/v1")
}

#[test]
fn key_is_read_from_the_environment_a_file_or_the_credential() {
    let fingerprint = |case: &Case| case.load().unwrap().api_key().unwrap().fingerprint();
    let of = |text: &str| ApiKey::new(text).unwrap().fingerprint();
    let mut case = with_url();
    fs::write(case.path().join("api-key"), "credential\n").unwrap();
    fs::write(case.path().join("mine"), " 0123 \r\n").unwrap();
    let dir = case.path().display().to_string();
    case = case.env("CREDENTIALS_DIRECTORY", dir.clone());
    assert_eq!(fingerprint(&case), of("credential"));
    case = case.env("CRM_MIRROR_API__KEY_FILE", format!("{dir}/mine"));
    assert_eq!(fingerprint(&case), of("0123"));
    case = case.env("CRM_MIRROR_API__KEY", "true");
    assert_eq!(fingerprint(&case), of("true"));
}

#[test]
fn missing_or_invalid_key_is_reported_when_needed() {
    let error = |case: &Case| case.load().unwrap().api_key().unwrap_err();
    assert!(matches!(error(&with_url()), ConfigError::NoKey));
    assert!(matches!(
        error(&with_url().env("CRM_MIRROR_API__KEY_FILE", "/nowhere/key")),
        ConfigError::SecretFile { .. }
    ));
    let bad = error(&with_url().env("CRM_MIRROR_API__KEY", format!("{SECRET} and more")));
    let why = "it contains white space or a control character";
    assert_eq!(bad.to_string(), format!("the API key from CRM_MIRROR_API__KEY cannot be used: {why}"));
    assert!(!format!("{bad:?}").contains("hidden"));
}

#[test]
fn key_in_the_configuration_is_refused_and_never_echoed() {
    for text in [
        format!("[api]\nkey = \"{SECRET}\"\n"),
        format!("[api]\nkey = {SECRET}\n"),
        format!("[api]\ntimeout = \"{SECRET}\"\n"),
        format!("[api]\nbase_url = \"{SECRET}\"\n"),
        format!("api = \"{SECRET}\"\n"),
        format!("[api]\nkey_file = [\"{SECRET}\"]\n"),
        format!("[api]\nconcurrency = \"{SECRET}\"\n"),
        format!("[api.key]\nvalue = \"{SECRET}\"\n"),
        format!("[api]\ntimeout = [\"{SECRET}\"]\n"),
        format!("[publish]\nurl = \"{SECRET}\"\n"),
        format!("[log]\nformat = \"{SECRET}\"\n"),
        format!("[sync]\nobjects = {{ a = \"{SECRET}\" }}\n"),
    ] {
        let case = case().file(&text);
        let error = case.load().unwrap_err();
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
    }
    let plain = case().file("[api]\nkey = \"x\"\n");
    assert!(plain.error().contains("is a secret"));
}

#[test]
fn debug_output_of_a_config_does_not_show_the_key() {
    let config = with_url().env("CRM_MIRROR_API__KEY", SECRET).load().unwrap();
    assert!(!format!("{config:?} {:?}", config.api_key().unwrap()).contains("hidden"));
}

#[test]
fn syntax_error_has_a_position() {
    let error = case().file("[api]\ntimeout = \n").error();
    assert!(error.contains("is not TOML: at line 2, column 11, "), "{error}");
}

#[test]
fn automatic_schedule_has_an_interval_of_five_seconds_or_more() {
    let load = |flags: &[(&'static str, &str)]| {
        let flags = flags.iter().map(|(key, value)| (*key, (*value).into())).collect();
        let sources =
            Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
        Config::load(&sources).map(|config| config.sync)
    };
    let auto = load(&[("sync.schedule", "auto"), ("sync.min_interval", "5s")]).unwrap();
    assert_eq!((auto.schedule, auto.min_interval), (ChangesSchedule::Auto, Duration::from_secs(5)));
    assert_eq!(load(&[("sync.schedule", "off")]).unwrap().schedule, ChangesSchedule::Off);
    for (key, value) in [("sync.min_interval", "4s"), ("sync.schedule", "automatic"), ("sync.audit_schedule", "auto")] {
        assert!(load(&[(key, value)]).is_err(), "{key} = {value}");
    }
}
