//! Small worlds with any content: the mirror contains exactly the content of the workspace.

use std::time::Duration;

use crate::support::cases::Cases;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Instant, Object, Resource};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::sync::Job;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value, json};

/// Any text, with a preference for problematic characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "\\PC{0,12}",
        1 => any::<String>(),
        1 => select(vec!["\0", "a\0b", "'; DROP TABLE contacts; --", "\"", "\\", "null", "NULL", "1e5", " 0012 ", "\u{1F980}",
            "e\u{301}", "\u{202E}abc", "\u{FEFF}", "\r\n\t", "{\"a\":1}", "[1]", "%s", "\u{FFFF}"]).prop_map(String::from),
    ]
}

fn timestamp() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_i64..4_000_000_000, 0_u32..1_000_000, select(vec!["Z", "+00:00", "+05:30", "-12:00"])).prop_map(
            |(seconds, micros, zone)| {
                let at = Instant::from_secs(seconds).unwrap().to_string();
                // The digits of one time zone with the offset of another: any valid spelling is accepted.
                format!("{}.{micros:06}{zone}", &at[..19])
            }
        ),
        select(vec![
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59.999Z",
            "0001-01-01T00:00:00Z",
            "9999-12-30T00:00:00Z"
        ])
        .prop_map(String::from),
    ]
}

fn decimal() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[1-9][0-9]{0,19}\\.[0-9]{1,10}",
        select(vec![
            "0",
            "-0.0000000001",
            "99999999999999999999.9999999999",
            "-99999999999999999999.9999999999",
            "1.10",
            "0.00"
        ])
        .prop_map(String::from),
    ]
}

fn or_null(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 4 => value].boxed()
}

fn custom(data_type: DataType) -> BoxedStrategy<Value> {
    match data_type {
        DataType::Integer => {
            or_null(prop_oneof![any::<i64>(), select(vec![0, -1, i64::MAX, i64::MIN])].prop_map(Value::from))
        }
        DataType::Decimal => or_null(decimal().prop_map(Value::from)),
        DataType::Boolean => or_null(any::<bool>().prop_map(Value::from)),
        DataType::Date => {
            or_null(select(vec!["2024-02-29", "0001-01-01", "9999-12-31", "1970-01-01"]).prop_map(Value::from))
        }
        DataType::DateTime => or_null(timestamp().prop_map(Value::from)),
        DataType::MultiSelect => or_null(prop::collection::vec(text(), 1..4).prop_map(Value::from)),
        _ => or_null(text().prop_map(Value::from)),
    }
}

/// Identifiers that are difficult in a path, in a list or in SQL.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-z0-9]{1,8}",
        2 => "[a-z,/%?#&+ '\"\\\\;é日🦀]{1,8}".prop_filter("no path can name these", |id| !matches!(id.as_str(), "." | "..")),
        1 => select(vec!["a,b", "a/b", "a%2Fb", "%", "..a", "日本", "0", "-1", "null", "A", "a", "\u{E9}", "e\u{301}"]).prop_map(String::from),
    ]
}

type Person = (String, Vec<Value>, Vec<Value>, (u8, Option<u8>, bool));

#[derive(Clone, Debug)]
struct Small {
    contacts: Vec<Person>,
    companies: Vec<Person>,
    page_cap: usize,
    walkers: u32,
    offsets: bool,
}

fn standard() -> BoxedStrategy<Vec<Value>> {
    vec![
        or_null(text().prop_map(Value::from)),
        or_null(any::<bool>().prop_map(Value::from)),
        or_null(timestamp().prop_map(Value::from)),
        or_null(any::<i64>().prop_map(Value::from)),
        or_null(prop_oneof![
            text().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            Just(json!({"a": [1, null]}))
        ]),
        or_null((-1e12_f64..1e12).prop_map(Value::from)),
    ]
    .boxed()
}

fn person() -> impl Strategy<Value = Person> {
    let customs: Vec<BoxedStrategy<Value>> = DataType::ALL.into_iter().map(custom).collect();
    (id(), standard(), customs, (0_u8..5, prop::option::weighted(0.9, 0_u8..5), any::<bool>()))
}

fn small() -> impl Strategy<Value = Small> {
    let some = |most| prop::collection::vec(person(), 0..most);
    (some(8), some(4), 1_usize..6, 1_u32..4, any::<bool>()).prop_map(
        |(contacts, companies, page_cap, walkers, offsets)| Small { contacts, companies, page_cap, walkers, offsets },
    )
}

fn put(world: &mut World, object: Object, person: &Person) {
    let (id, standard, custom, (created, updated, dated)) = person;
    let mut fields = Map::new();
    let mut set = |wire: &str, value: &Value| {
        fields.insert(wire.into(), value.clone());
    };
    let [text, flag, time, int, any, real] = standard.as_slice() else { unreachable!() };
    set("id", &json!(id));
    set("name", text);
    match object {
        Object::Contact => {
            set("qualification", flag);
            set("lastInteractionAt", time);
            set("location", &json!({"country": text, "region": null, "city": text}));
            set("notes", text);
            set("doNotContact", flag);
            set("notesAt", time);
            set("score", real);
            set("qualificationConfidence", any);
        }
        Object::Company => {
            set("employeeCount", int);
            set("revenue", any);
            set("logo", any);
            set("customerFitScore", real);
            set("enrichmentAt", time);
            set("notes", text);
        }
    }
    let keyed: Map<String, Value> = DataType::ALL
        .iter()
        .zip(custom)
        .map(|(data_type, value)| (data_type.as_str().to_string(), value.clone()))
        .collect();
    set("customFields", &Value::from(keyed));
    // Ties, and rows without a date.
    let at = |n: u8| noon().minus(Duration::from_secs(1000 * u64::from(n + 1)));
    set("createdAt", &if *dated { json!(at(*created).to_wire()) } else { Value::Null });
    world.create(object, &Value::from(fields));
    world.edit_at(object, id, &Default::default(), updated.map(at));
}

async fn mirrored(small: &Small) -> Result<(), String> {
    let mut world = World::new(noon().minus(Duration::from_secs(100_000)));
    for object in Object::ALL {
        for data_type in DataType::ALL {
            world.fields().define(NewField::new(object, data_type.as_str(), data_type));
        }
    }
    for person in &small.contacts {
        put(&mut world, Object::Contact, person);
    }
    for person in &small.companies {
        put(&mut world, Object::Company, person);
    }
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| {
        settings.page_cap = Some(small.page_cap);
        settings.counts_rows = small.offsets;
    });
    let mut mirror = Mirror::empty();
    mirror.settings.concurrency = small.walkers;
    // So that a few records are enough for slices.
    mirror.settings.rows_per_slice = 2;
    let compare = |mirror: &Mirror, when: &str| {
        let differences = mirror.differences(&crm);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(format!("{when}:\n{}", differences[..differences.len().min(6)].join("\n")))
        }
    };
    let report = mirror.sync(&crm).await;
    compare(&mirror, "first copy")?;
    if report.tally.warnings > 0 {
        return Err(format!("{} warnings, and nothing is odd", report.tally.warnings));
    }
    // Every second record swaps its fields with its neighbour's, and one of each kind is removed.
    crm.wait(3600);
    crm.sandbox.with_world(|world| {
        for (object, people) in [(Object::Contact, &small.contacts), (Object::Company, &small.companies)] {
            let now = world.tick();
            for (to, from) in people.iter().zip(people.iter().skip(1)).step_by(2) {
                if world.remove(object, &to.0) {
                    put(world, object, &(to.0.clone(), from.1.clone(), from.2.clone(), to.3));
                    world.edit_at(object, &to.0, &Default::default(), Some(now));
                }
            }
            if let Some(id) = world.ids(object.resource()).last().cloned() {
                world.remove(object, &id);
            }
        }
    });
    // Nothing proves the removal of the last record of an object but a person or a day.
    mirror.run(&crm, &Job::resync().accepting_removals()).await.map_err(|error| format!("resync: {error:?}"))?;
    if crm.sandbox.with_world(|world| world.count(Resource::Contacts)) > 0 {
        compare(&mirror, "after changes")?;
    }
    Ok(())
}

#[test]
fn any_small_world_is_mirrored_exactly() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Cases::per_thousand(100)
        .check(300, small(), |small| runtime.block_on(mirrored(&small)).map_err(TestCaseError::fail));
}
