//! Full-text search: everything in the records is found, and nothing that was removed, whatever happened in between.

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon, searched, shell};
use crm_mirror::model::{DataType, Object};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::sync::Job;
use serde_json::json;

fn world() -> World {
    let mut world = World::new(noon());
    for object in Object::ALL {
        world.fields().define(NewField::new(object, "motto", DataType::ShortText));
        world.fields().define(NewField::new(object, "story", DataType::LongText));
    }
    world.create(
        Object::Company,
        &json!({"id": "co1", "name": "Åkerlund Häuser", "registeredName": "Akerlund Verwaltung AB",
                "websiteUrl": "https://houses.example"}),
    );
    world.create(
        Object::Contact,
        &json!({"id": "ct1", "name": "Zoë Müller", "firstName": "Zoë", "lastName": "Müller-Lüdenscheidt",
                "email": "zoe@houses.example", "position": "Lighthouse keeper", "company": "Häuser",
                "notes": "Prefers café meetings near the harbour", "customFields": {"motto": "Slow and steady"}}),
    );
    world.create(
        Object::Contact,
        &json!({"id": "ct2", "name": "Anna Bell", "customFields": {"story": "Once upon a steady tide"}}),
    );
    world
}

async fn mirrored() -> (Crm, Mirror) {
    let make = || async move {
        let crm = Crm::serve(world()).await;
        let mirror = Mirror::empty();
        mirror.sync(&crm).await;
        (crm, mirror)
    };
    prepared("search".into(), make).await
}

/// The records that a query finds.
fn found(mirror: &Mirror, table: &str, question: &str) -> String {
    let conn = mirror.read();
    let mut stmt =
        conn.prepare(&format!("SELECT record_id FROM {table} WHERE {table} MATCH ?1 ORDER BY record_id")).unwrap();
    let ids = stmt.query_map([question], |row| row.get::<_, String>(0)).unwrap();
    ids.map(Result::unwrap).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn assert_in_step(mirror: &Mirror) {
    let mut differences = searched::differences(&mirror.read());
    differences.extend(searched::integrity(&mirror.path));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

async fn again(crm: &Crm, mirror: &Mirror) {
    crm.wait(7 * 3600);
    mirror.resync(crm).await;
    mirror.assert_exact(crm);
    assert_in_step(mirror);
}

#[tokio::test]
async fn texts_are_found_with_and_without_diacritics_and_by_prefix() {
    let (_crm, mirror) = mirrored().await;
    assert_in_step(&mirror);
    for (question, ids) in [
        ("müller", "ct1"),
        ("muller", "ct1"),
        ("ludensch*", "ct1"),
        ("zo*", "ct1"),
        ("email:zoe", "ct1"),
        ("light*", "ct1"),
        ("cafe", "ct1"),
        ("notes:harbour", "ct1"),
        ("custom:steady", "ct1 ct2"),
        ("company:hauser", "ct1"),
        ("\"upon a steady\"", "ct2"),
        ("name:harbour", ""),
        ("nobody", ""),
    ] {
        assert_eq!(found(&mirror, "contact_search", question), ids, "{question}");
    }
    for question in ["akerlund", "verwaltung", "company:houses", "name:hau*"] {
        assert_eq!(found(&mirror, "company_search", question), "co1", "{question}");
    }
}

#[tokio::test]
async fn odd_texts_are_searched_whole() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| {
        for (id, name, first, last) in [
            ("odd1", "Nul\u{0}behind", "Nul\u{0}before", "Tail"),
            ("odd2", "", "Only first", ""),
            ("odd3", "Both Names", "Both", "Names"),
            ("odd4", "Names, Both", "Both", "Names"),
        ] {
            world.create(Object::Contact, &json!({"id": id, "name": name, "firstName": first, "lastName": last}));
        }
    });
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_in_step(&mirror);
    for (question, ids) in [("behind", "odd1"), ("tail", "odd1"), ("only", "odd2"), ("names", "odd3 odd4")] {
        assert_eq!(found(&mirror, "contact_search", question), ids, "{question}");
    }
    let names = "SELECT group_concat(replace(name, char(10), '|'), ' & ') FROM contact_search
                 WHERE record_id IN ('odd3', 'odd4') ORDER BY record_id";
    assert_eq!(mirror.one(names), "'Both Names & Names, Both|Both|Names'");
}

#[tokio::test]
async fn ranks_and_snippets_work_in_a_join() {
    let (_crm, mirror) = mirrored().await;
    let sql = "SELECT c.name || ': ' || snippet(contact_search, 7, '[', ']', '...', 3)
               FROM contact_search AS s JOIN contacts_full AS c ON c.id = s.record_id
               WHERE contact_search MATCH 'zoe OR steady' ORDER BY bm25(contact_search, 0, 10, 5), c.id LIMIT 1";
    assert_eq!(mirror.one(sql), "'Zoë Müller: Slow and [steady]'");
    if shell::is_there() {
        assert_eq!(shell::run(&mirror.path, sql).unwrap(), "Zoë Müller: Slow and [steady]");
    }
}

#[tokio::test]
async fn index_follows_edits_removals_and_returns() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| {
        world.edit(
            Object::Contact,
            "ct2",
            &json!({"name": "Anna Clapper", "notes": "Rings", "customFields": {"story": null, "motto": "Louder"}}),
        );
        world.remove(Object::Contact, "ct1");
        world.create(Object::Company, &json!({"id": "co2", "name": "Foundry"}));
    });
    again(&crm, &mirror).await;
    for (question, ids) in [("bell", ""), ("clapper", "ct2"), ("rings", "ct2"), ("steady", ""), ("lou*", "ct2")] {
        assert_eq!(found(&mirror, "contact_search", question), ids, "{question}");
    }
    assert_eq!(found(&mirror, "company_search", "foundry"), "co2");
    crm.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({"id": "ct1", "name": "Zoë Returned"}));
    });
    again(&crm, &mirror).await;
    assert_eq!(found(&mirror, "contact_search", "zoe"), "ct1");
}

#[tokio::test]
async fn index_follows_changes_of_custom_fields() {
    let (crm, mirror) = mirrored().await;
    let archive = |key: &'static str| crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, key));
    archive("motto");
    again(&crm, &mirror).await;
    assert_eq!(found(&mirror, "contact_search", "steady"), "ct2");
    archive("story");
    again(&crm, &mirror).await;
    assert_eq!(found(&mirror, "contact_search", "steady"), "");
    crm.sandbox.with_world(|world| {
        world.fields().reactivate(Object::Contact, "motto");
        world.fields().reactivate(Object::Contact, "story");
    });
    again(&crm, &mirror).await;
    assert_eq!(found(&mirror, "contact_search", "steady"), "ct1 ct2");
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "motto", |field| field.data_type = "INTEGER".into());
        world.edit(Object::Contact, "ct1", &json!({"customFields": {"motto": 7}}));
    });
    again(&crm, &mirror).await;
    assert_eq!(found(&mirror, "contact_search", "steady"), "ct2");
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "motto", |field| field.data_type = "LONG_TEXT".into());
        world.edit(Object::Contact, "ct1", &json!({"customFields": {"motto": "Steady again"}}));
    });
    again(&crm, &mirror).await;
    assert_eq!(found(&mirror, "contact_search", "steady"), "ct1 ct2");
}

#[tokio::test]
async fn kill_at_any_commit_of_the_first_copy_ends_in_the_same_index() {
    for commits in 0..200 {
        let crm = Crm::serve(world()).await;
        let mirror = Mirror::one_at_a_time();
        let killed = mirror.run_killed_after(&crm, &Job::sync(), Some(commits)).await.is_err();
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        assert_in_step(&mirror);
        if !killed {
            assert!(commits > 8, "too few commits for this test");
            return;
        }
    }
    panic!("a first copy of three records in 200 commits");
}

#[tokio::test]
async fn vacuum_keeps_the_search_index_valid() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "ct1"));
    again(&crm, &mirror).await;
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch("VACUUM").unwrap();
    assert_in_step(&mirror);
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, "ct2", &json!({"name": "After the vacuum"}));
    });
    again(&crm, &mirror).await;
    assert_eq!(found(&mirror, "contact_search", "vacuum"), "ct2");
}

/// What another program may do to a search table.
const DAMAGES: [&str; 14] = [
    "DELETE FROM contact_search_data",
    "DELETE FROM contact_search_data WHERE id > 10",
    "DELETE FROM contact_search_idx",
    "DELETE FROM contact_search_docsize",
    "DELETE FROM contact_search_content",
    "DELETE FROM contact_search_config",
    "UPDATE contact_search_config SET v = 99",
    "DROP TABLE contact_search_data",
    "DROP TABLE contact_search_idx",
    "DROP TABLE contact_search_content",
    "DROP TABLE contact_search_config",
    "DROP TABLE contact_search_docsize",
    "DROP TABLE contact_search",
    "DELETE FROM search_documents",
];

/// What no count shows: a run that comes across it builds the index again, and does not fail either.
const HIDDEN: [&str; 3] = [
    "UPDATE contact_search_data SET block = x'00'",
    "UPDATE contact_search_data SET block = zeroblob(length(block)) WHERE id > 10",
    "UPDATE contact_search_docsize SET sz = x'ff'",
];

#[tokio::test]
async fn damaged_index_is_reported_and_built_again_when_the_mirror_is_opened() {
    let (crm, mirror) = mirrored().await;
    for (n, damage) in DAMAGES.into_iter().enumerate() {
        rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(damage).unwrap();
        let broken = || {
            let reader = crm_mirror::store::Reader::open(&mirror.path).unwrap();
            crm_mirror::store::people_report::damaged_search(&reader.begin().unwrap()).unwrap()
        };
        assert!(broken().iter().any(|object| object.kind == "search index"), "{damage}");
        crm.wait(60);
        let position = json!({"position": format!("Keeper {n}")});
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct1", &position));
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        assert_in_step(&mirror);
        assert_eq!(found(&mirror, "contact_search", &format!("\"keeper {n}\"")), "ct1", "{damage}");
        assert_eq!(broken(), [], "{damage}");
    }
}

#[tokio::test]
async fn index_that_is_damaged_while_the_mirror_is_open_is_mended_by_the_next_run() {
    let (crm, mirror) = mirrored().await;
    for (n, damage) in HIDDEN.into_iter().chain(DAMAGES).enumerate() {
        let position = json!({"position": format!("Keeper {n}")});
        let (store, engine) = mirror.open(&crm, None).await.unwrap();
        rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(damage).unwrap();
        crm.wait(60);
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct2", &position));
        engine.run(&Job::sync(), "test").await.unwrap_or_else(|error| panic!("{damage}: {error:?}"));
        drop(engine);
        store.close().await;
        mirror.assert_exact(&crm);
        if n >= HIDDEN.len() {
            assert_in_step(&mirror);
        }
    }
}

#[tokio::test]
async fn index_whose_segments_are_being_merged_is_not_damaged() {
    let mut world = World::new(noon());
    let words =
        |contact: usize, time: usize| -> String { (0..40).map(|word| format!("{contact}x{word}x{time} ")).collect() };
    let contacts: Vec<String> = (0..200).map(|n| format!("ct{n:03}")).collect();
    for (n, id) in contacts.iter().enumerate() {
        world.create(Object::Contact, &json!({"id": id, "name": "Anna Bell", "position": words(n, 0)}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    for time in 1..3 {
        crm.wait(60);
        crm.sandbox.with_world(|world| {
            for (n, id) in contacts.iter().enumerate() {
                world.edit(Object::Contact, id, &json!({"position": words(n, time)}));
            }
        });
        mirror.sync(&crm).await;
    }
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    conn.execute("INSERT INTO contact_search (contact_search, rank) VALUES ('merge', -8)", []).unwrap();
    let removed_by_the_merge = "SELECT count(*) FROM contact_search_idx AS i
        WHERE NOT EXISTS (SELECT 1 FROM contact_search_data WHERE id = (i.segid << 37) + (i.pgno >> 1))";
    assert!(conn.query_row(removed_by_the_merge, [], |row| row.get::<_, i64>(0)).unwrap() > 0);
    let index = || -> Vec<(i64, Vec<u8>)> {
        let mut stmt = conn.prepare("SELECT id, block FROM contact_search_data ORDER BY id").unwrap();
        stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    let before = index();
    mirror.sync(&crm).await;
    assert!(before == index(), "an idle run has built the index again");
    assert_in_step(&mirror);
    // The first page that the merge has left is no page that it removed.
    let first = "DELETE FROM contact_search_data WHERE id = (SELECT min(id) FROM contact_search_data WHERE id >> 37 =
        (SELECT segid FROM contact_search_idx GROUP BY segid ORDER BY count(*) DESC LIMIT 1))";
    assert_eq!(conn.execute(first, []).unwrap(), 1);
    mirror.sync(&crm).await;
    assert_in_step(&mirror);
}
