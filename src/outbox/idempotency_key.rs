//! Idempotency keys: 122 random bits each, so that two updates of a workspace never share one.

use std::sync::Arc;

use uuid::Uuid;

/// The source of keys: the system's randomness, or a test's numbers.
#[derive(Clone)]
pub struct IdempotencyKeys(Arc<dyn Fn() -> u128 + Send + Sync>);

impl IdempotencyKeys {
    pub fn system() -> IdempotencyKeys {
        IdempotencyKeys::from_source(|| Uuid::new_v4().as_u128())
    }

    pub fn from_source(source: impl Fn() -> u128 + Send + Sync + 'static) -> IdempotencyKeys {
        IdempotencyKeys(Arc::new(source))
    }

    pub fn make(&self) -> String {
        format!("{:032x}", (self.0)())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_32_digits_of_their_source() {
        assert_eq!(IdempotencyKeys::from_source(|| 255).make(), format!("{:0>32}", "ff"));
        let keys = IdempotencyKeys::system();
        assert_ne!(keys.make(), keys.make());
        assert_eq!(keys.make().len(), 32);
    }
}
