//! `[notify]`: who is told about trouble.

use std::fmt;

use reqwest::Url;

use super::error::ConfigError;
use super::sections::NotifySection;

/// `[notify]`. The address of a webhook is a secret: whoever knows it may post there.
#[derive(Clone, Default)]
pub struct NotifyConfig {
    command: Option<Vec<String>>,
    webhook: Option<Url>,
}

impl NotifyConfig {
    pub(super) fn new(section: NotifySection) -> Result<NotifyConfig, ConfigError> {
        if section.command.is_some() && section.webhook.is_some() {
            return Err(ConfigError::Value {
                key: "notify.webhook".into(),
                place: "in the configuration".into(),
                reason: "and `notify.command` are both set: choose one".into(),
            });
        }
        Ok(NotifyConfig { command: section.command, webhook: section.webhook })
    }

    /// Whether anybody is told.
    pub fn is_on(&self) -> bool {
        self.command.is_some() || self.webhook.is_some()
    }

    pub fn command(&self) -> Option<&[String]> {
        self.command.as_deref()
    }

    pub fn webhook(&self) -> Option<&Url> {
        self.webhook.as_ref()
    }
}

impl fmt::Debug for NotifyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let receiver = match (&self.command, &self.webhook) {
            (Some(_), _) => "a command",
            (None, Some(_)) => "a webhook",
            (None, None) => "nobody",
        };
        f.debug_tuple("NotifyConfig").field(&receiver).finish()
    }
}
