//! `[notify]`: who is told about trouble.

use std::fmt;

use reqwest::Url;

use super::error::ConfigError;
use super::sections::NotifySection;

#[derive(Clone, Default)]
pub enum NotifyConfig {
    #[default]
    Off,
    /// A program and its arguments.
    Command(Vec<String>),
    /// An address that is a secret: whoever knows it may post there.
    Webhook(Url),
}

impl NotifyConfig {
    pub(super) fn new(section: NotifySection) -> Result<NotifyConfig, ConfigError> {
        match (section.command, section.webhook) {
            (None, None) => Ok(NotifyConfig::Off),
            (Some(command), None) => Ok(NotifyConfig::Command(command)),
            (None, Some(webhook)) => Ok(NotifyConfig::Webhook(webhook)),
            (Some(_), Some(_)) => Err(ConfigError::Value {
                key: "notify.webhook".into(),
                place: "in the configuration".into(),
                reason: "and `notify.command` are both set: choose one".into(),
            }),
        }
    }
}

impl fmt::Debug for NotifyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotifyConfig::Off => "NotifyConfig::Off",
            NotifyConfig::Command(_) => "NotifyConfig::Command",
            NotifyConfig::Webhook(_) => "NotifyConfig::Webhook",
        })
    }
}
