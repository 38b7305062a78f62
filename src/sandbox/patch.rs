//! Updates (reference, *PATCH /contacts/{id}*, *PATCH /companies/{id}*).
use super::refusal::Refusal;
use super::service::{Request, Success};
use super::settings::Settings;
use super::world::World;
use crate::model::Object;

#[derive(Debug, Default)]
pub(crate) struct Replays;

pub(crate) fn patch(
    _world: &mut World,
    _settings: &Settings,
    _replays: &mut Replays,
    _object: Object,
    _id: &str,
    _request: &Request,
) -> Result<Success, Refusal> {
    Err(Refusal::new(503, "Updates are not served yet"))
}
