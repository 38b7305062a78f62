//! Splits the cases of a property over tests that run side by side.

/// Defines a module of the property's name with one test per shard, which runs its share of the cases.
macro_rules! in_shards {
    ($property:ident, $run:ident, $per_thousand:expr, [$($shard:ident),+ $(,)?]) => {
        mod $property {
            const SHARDS: u32 = [$(stringify!($shard)),+].len() as u32;
            $(
                #[test]
                fn $shard() {
                    super::$run(crate::support::cases::cases($per_thousand).div_ceil(SHARDS));
                }
            )+
        }
    };
}
