//! Splits the cases of a property over tests that run side by side.

/// Defines a module of the property's name with one test per shard, which runs its share of the cases.
macro_rules! in_shards {
    ($property:ident, $run:ident, $per_thousand:expr, [$($shard:ident),+ $(,)?]) => {
        mod $property {
            const SHARDS: [&str; [$(stringify!($shard)),+].len()] = [$(stringify!($shard)),+];
            $(
                #[test]
                fn $shard() {
                    let place = SHARDS.iter().position(|shard| *shard == stringify!($shard)).unwrap() as u32;
                    super::$run(crate::support::cases::Cases::shard($per_thousand, place, SHARDS.len() as u32));
                }
            )+
        }
    };
}
