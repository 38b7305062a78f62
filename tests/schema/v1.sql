PRAGMA application_id = 1129467213;
PRAGMA user_version = 1;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE team_members (
    id TEXT PRIMARY KEY NOT NULL,
    first_name TEXT, -- first name
    last_name TEXT, -- last name
    username TEXT, -- user name
    email TEXT, -- e-mail address
    status TEXT, -- ACTIVE, INACTIVE, SUSPENDED or PENDING
    created_at TEXT, -- when the member was created
    updated_at TEXT, -- when the member last changed
    etag TEXT, -- version token of the member, its quotes included
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
) STRICT;
INSERT INTO team_members VALUES('tm_5049ec25924c','Дмитрий','Щербаков','member4','member4@team.example','ACTIVE','2024-04-25T01:11:01.000000Z','2024-04-25T01:11:01.000000Z','"2024-04-25T01:11:01.000Z"',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO team_members VALUES('tm_ca036b700e61','João','Conceição','member5','member5@team.example','ACTIVE','2024-06-19T02:58:12.000000Z','2024-06-19T02:58:12.000000Z','"2024-06-19T02:58:12.000Z"',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO team_members VALUES('tm_e31d6e461e0d','Олена','Ковальчук','member1','member1@team.example','SUSPENDED','2024-07-12T14:42:42.000000Z','2024-07-12T14:42:42.000000Z','"2024-07-12T14:42:42.000Z"',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO team_members VALUES('tm_5cd6ed909a22','伟','王','member2','member2@team.example','PENDING','2025-07-17T07:16:59.000000Z','2025-07-17T07:16:59.000000Z','"2025-07-17T07:16:59.000Z"',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO team_members VALUES('tm_d6906cdb1637','Amélie','Tremblay','member3','member3@team.example','SUSPENDED','2025-09-14T02:31:54.000000Z','2025-09-14T02:31:54.000000Z','"2025-09-14T02:31:54.000Z"',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO team_members VALUES('tm_6963eefba1f8','İbrahim','Yıldız','member0','member0@team.example','ACTIVE','2025-10-28T21:09:45.000000Z','2025-10-28T21:09:45.000000Z','"2025-10-28T21:09:45.000Z"',NULL,'2026-03-04T12:00:00.000000Z');
CREATE TABLE companies (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT, -- name
    registered_name TEXT, -- registered name
    industry TEXT, -- industry
    sub_industry TEXT, -- part of the industry
    employee_count INTEGER, -- number of employees
    revenue TEXT, -- revenue, exactly as the service gives it
    revenue_num REAL, -- the same, as the nearest double: for sorting and sums
    hq_country TEXT, -- country of the headquarters
    year_founded INTEGER, -- year of foundation
    owner_id TEXT REFERENCES team_members (id), -- identifier of the owning team member
    logo TEXT, -- logo, exactly as the service gives it
    enrichment_at TEXT, -- when the record was enriched
    enrichment_status TEXT, -- pending, completed or failed
    last_message_sent_at TEXT, -- last message sent to the company
    last_message_received_at TEXT, -- last message received from the company
    last_interaction_at TEXT, -- time of the last interaction
    created_at TEXT, -- when the record was created
    updated_at TEXT, -- when the record last changed
    customer_fit_score REAL, -- customer fit, compared as stored
    etag TEXT, -- version token of the record, its quotes included
    website_url TEXT, -- web site
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
, cf_account_code TEXT, cf_offices INTEGER, cf_credit_limit TEXT, cf_credit_limit_num REAL, cf_public INTEGER, cf_contract_end TEXT, cf_last_audit TEXT, cf_region TEXT, cf_markets TEXT) STRICT;
INSERT INTO companies VALUES('co_bd766a05068b','Kestrel Robotics 1','Kestrel Robotics 1 GmbH','Manufacturing',NULL,768,'171735576',171735576.0,'PL',NULL,'tm_d6906cdb1637','https://cdn.example/kestrelrobotics1.png','2026-01-29T16:27:33.789000Z','completed','2025-10-26T15:20:46.000000Z',NULL,'2025-10-26T15:20:46.000000Z','2024-06-18T08:03:46.000000Z','2026-01-29T16:27:33.789000Z',0.34499999999999997335,'"2026-01-29T16:27:33.789Z"','https://kestrelrobotics1.example/',NULL,'2026-03-04T12:00:00.000000Z','Kestrel 1111',592,NULL,NULL,NULL,'1973-01-30','2027-01-18T12:33:27.000000Z','apac',NULL);
INSERT INTO companies VALUES('co_43bceaba8a76','Saffron Foods 0','Saffron Foods 0 Kft.','Food & Beverage','Foods',41664,'1733786430',1733786430.0,'ES',1946,'tm_6963eefba1f8',NULL,NULL,'pending','2025-12-18T23:11:19.000000Z',NULL,'2025-12-18T23:11:19.000000Z','2025-04-08T00:34:26.000000Z','2026-03-04T11:00:00.000000Z',NULL,'"2026-03-04T11:00:00.000Z"',NULL,NULL,'2026-03-04T12:00:00.000000Z','Saffron 2912',69,'832871.28',832871.28000000002795,NULL,NULL,'2026-11-08T05:30:14.000000Z','apac',NULL);
INSERT INTO companies VALUES('co_372fe94f82a0','Pampa Energy 2','Pampa Energy 2 Inc.','Energy',NULL,1408,'3154009481',3154009481.0,'IN',1998,'tm_5049ec25924c',NULL,NULL,'pending','2025-11-14T19:58:42.000000Z',NULL,'2025-11-14T19:58:42.000000Z','2026-01-04T08:54:51.000000Z','2026-01-27T13:52:07.355000Z',NULL,'"2026-01-27T13:52:07.355Z"','https://www.pampaenergy2.example/',NULL,'2026-03-04T12:00:00.000000Z','Pampa 2474',830,'422346.59',422346.59000000002561,0,NULL,NULL,'emea','["emea","apac","amer"]');
CREATE TABLE company_details (
    company_id TEXT PRIMARY KEY NOT NULL REFERENCES companies (id),
    notes TEXT, -- notes
    notes_at TEXT, -- when the notes last changed
    customer_fit_score_reason TEXT, -- reason of the customer fit
    etag TEXT, -- the record's etag when this detail was read; current while it equals the record's, empty to be read again
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    fetched_at TEXT NOT NULL -- when the detail was asked for, UTC
, cf_strategy TEXT) STRICT;
INSERT INTO company_details VALUES('co_43bceaba8a76',NULL,NULL,NULL,'"2026-03-04T11:00:00.000Z"',NULL,'2026-03-04T12:00:00.000000Z',NULL);
INSERT INTO company_details VALUES('co_bd766a05068b','Moved from a competitor after their outage 😬. Asked for a quote; the budget for this quarter is approved.','2026-01-29T16:27:33.789000Z','Moved from a competitor after their outage 😬.','"2026-01-29T16:27:33.789Z"',NULL,'2026-03-04T12:00:00.000000Z',NULL);
INSERT INTO company_details VALUES('co_372fe94f82a0',replace('Line one\nline two	with a tab and a backslash \ in it. Prefers calls in the morning.','\n',char(10)),'2026-01-27T13:52:07.355000Z',NULL,'"2026-01-27T13:52:07.355Z"',NULL,'2026-03-04T12:00:00.000000Z',NULL);
CREATE TABLE contacts (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT, -- full name
    first_name TEXT, -- first name
    last_name TEXT, -- last name
    email TEXT, -- primary e-mail address; read-only through the API
    mobile TEXT, -- primary mobile number; read-only through the API
    position TEXT, -- job title
    company TEXT, -- company text
    company_id TEXT REFERENCES companies (id), -- identifier of the company
    owner_id TEXT REFERENCES team_members (id), -- identifier of the owning team member
    qualification INTEGER, -- whether the contact is qualified
    created_at TEXT, -- when the record was created
    updated_at TEXT, -- when the record last changed
    intent_type TEXT, -- kind of intent
    intent_level TEXT, -- HIGH, MED or LOW
    last_interaction_at TEXT, -- time of the last interaction
    enrichment_status TEXT, -- pending, completed or failed
    enrichment_at TEXT, -- when the record was enriched
    etag TEXT, -- version token of the record, its quotes included
    location_country TEXT, -- country, as stored text
    location_region TEXT, -- region
    location_city TEXT, -- city
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
, cf_nickname TEXT, cf_customer_ref TEXT, cf_children INTEGER, cf_lifetime_value TEXT, cf_lifetime_value_num REAL, cf_newsletter INTEGER, cf_birthday TEXT, cf_next_call TEXT, cf_tier TEXT, cf_topics TEXT, cf__berweisung TEXT, cf__berweisung_num REAL, cf_tier_2 TEXT) STRICT;
INSERT INTO contacts VALUES('ct_1e15e67972f4','민준 김','민준','김','contact3@mail3.example','+440000000111','VP, Sales','Kestrel Robotics 1','co_bd766a05068b','tm_e31d6e461e0d',NULL,'2024-11-26T14:40:18.000000Z','2025-11-25T02:40:22.029000Z',NULL,NULL,NULL,'completed','2025-11-25T02:40:22.029000Z','"2025-11-25T02:40:22.029Z"','KR','Małopolskie','Kraków',NULL,'2026-03-04T12:00:00.000000Z',NULL,'Pampa 8666',NULL,'241311.83',241311.82999999998719,0,'1962-01-14',NULL,'bronze',NULL,NULL,NULL,NULL);
INSERT INTO contacts VALUES('ct_1188e50e6b1e','İbrahim Yıldız','İbrahim','Yıldız','contact5@mail5.example','+440000000185','Harbour master',NULL,NULL,'tm_6963eefba1f8',0,'2025-05-23T09:10:09.000000Z','2026-03-04T13:00:00.000000Z','purchase','MED','2026-02-27T14:58:48.000000Z','completed','2026-02-17T09:04:53.653000Z','"2026-03-04T13:00:00.000Z"','TR',NULL,NULL,NULL,'2026-03-04T13:00:00.000000Z',NULL,'Kilo & Sons 9620',9223372036854775807,'409579.94',409579.94000000000232,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO contacts VALUES('ct_97cf65c3ef09','Wanjirũ Kamau','Wanjirũ','Kamau','contact4@mail4.example','+440000000148','営業部長','Saffron Foods 0','co_43bceaba8a76','tm_ca036b700e61',1,'2025-06-06T20:30:38.000000Z','2026-03-04T11:00:00.000000Z','partnership','MED','2025-12-21T09:05:23.000000Z','failed',NULL,'"2026-03-04T11:00:00.000Z"','KE','دبي','دبي',NULL,'2026-03-04T12:00:00.000000Z',NULL,NULL,NULL,'65585.62',65585.619999999995341,1,NULL,NULL,'bronze',NULL,NULL,NULL,NULL);
INSERT INTO contacts VALUES('ct_2aa2e7e47aca','فاطمه رضایی','فاطمه','رضایی','contact1@mail1.example',NULL,'Office Manager','Saffron Foods 0','co_43bceaba8a76','tm_5049ec25924c',0,'2025-11-11T01:49:27.000000Z','2026-02-26T02:40:27.849000Z',NULL,NULL,NULL,'completed','2026-02-26T02:40:27.849000Z','"2026-02-26T02:40:27.849Z"','IR','California','San José',NULL,'2026-03-04T12:00:00.000000Z','Zephyr 859',NULL,NULL,'728692.77',728692.77000000001864,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO contacts VALUES('ct_b0e96899feb5','Guðrún Þórðardóttir','Guðrún','Þórðardóttir','contact0@mail0.example','+440000000000','CEO',NULL,NULL,'tm_d6906cdb1637',1,'2025-12-05T17:54:04.000000Z','2026-03-04T11:00:00.000000Z','support','LOW','2025-06-23T21:43:28.000000Z','completed','2026-03-04T11:00:00.000000Z','"2026-03-04T11:00:00.000Z"','IS','Höfuðborgarsvæðið','Reykjavík',NULL,'2026-03-04T12:00:00.000000Z','Lumen 2957','Lumen 9484',NULL,'416044.67',416044.66999999998371,NULL,NULL,NULL,NULL,'["pricing","support"]',NULL,NULL,NULL);
INSERT INTO contacts VALUES('ct_a45c672ef6df','İbrahim Yıldız','İbrahim','Yıldız','contact2@mail2.example',NULL,'Office Manager','Pampa Energy 2','co_372fe94f82a0',NULL,0,'2026-01-29T14:47:25.000000Z','2026-01-31T01:03:51.327000Z','purchase','MED','2025-04-07T10:35:33.000000Z','completed','2026-01-31T01:03:51.327000Z','"2026-01-31T01:03:51.327Z"','TR','دبي','دبي',NULL,'2026-03-04T12:00:00.000000Z','Zephyr 8285','Zephyr 5380',NULL,'891733.33',891733.32999999995809,0,'2018-08-19',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE contact_details (
    contact_id TEXT PRIMARY KEY NOT NULL REFERENCES contacts (id),
    industry TEXT, -- industry, as stored text
    language TEXT, -- preferred language
    timezone TEXT, -- time zone
    linkedin_url TEXT, -- LinkedIn profile
    record_source TEXT, -- where the record came from
    origin_channel TEXT, -- channel of the first contact
    notes TEXT, -- notes
    notes_at TEXT, -- when the notes last changed
    score REAL, -- deprecated historical score
    reasoning TEXT, -- reasoning behind the qualification
    qualification_confidence TEXT, -- confidence of the qualification
    qualification_confidence_num REAL, -- the same, as the nearest double: for sorting and sums
    qualified_at TEXT, -- when the contact was qualified
    intent_reason TEXT, -- reason of the intent
    intent_inferred_at TEXT, -- when the intent was inferred
    last_message_sent_at TEXT, -- last message sent to the contact
    last_message_received_at TEXT, -- last message received from the contact
    session_summary_discussed TEXT, -- what the last session discussed
    session_summary_requests TEXT, -- what the contact asked for
    session_summary_at TEXT, -- when the session was summarised
    do_not_contact INTEGER, -- whether the contact must not be contacted
    do_not_contact_at TEXT, -- since when
    do_not_contact_reason TEXT, -- why
    email_marketing_consent_status TEXT, -- consent to marketing by e-mail
    email_marketing_consent_updated_at TEXT, -- when the e-mail consent changed
    sms_marketing_consent_status TEXT, -- consent to marketing by SMS
    sms_marketing_consent_updated_at TEXT, -- when the SMS consent changed
    whatsapp_marketing_consent_status TEXT, -- consent to marketing by WhatsApp
    whatsapp_marketing_consent_updated_at TEXT, -- when the WhatsApp consent changed
    phone_marketing_consent_status TEXT, -- consent to marketing by phone
    phone_marketing_consent_updated_at TEXT, -- when the phone consent changed
    consent_updated_at TEXT, -- when any consent last changed
    contactable INTEGER, -- whether any channel reaches the contact
    contactable_channels TEXT, -- the channels that do
    contactability_updated_at TEXT, -- when contactability last changed
    email_reachability_status TEXT, -- reachable by e-mail
    web_chat_reachability_status TEXT, -- reachable by web chat
    whatsapp_reachability_status TEXT, -- reachable by WhatsApp
    whatsapp_service_window_expires_at TEXT, -- when the WhatsApp service window closes
    phone_reachability_status TEXT, -- reachable by phone
    etag TEXT, -- the record's etag when this detail was read; current while it equals the record's, empty to be read again
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    fetched_at TEXT NOT NULL -- when the detail was asked for, UTC
, cf_background TEXT) STRICT;
INSERT INTO contact_details VALUES('ct_b0e96899feb5','Logistics','fr','Asia/Tokyo',NULL,'manual',NULL,'Hat das Angebot gelesen und möchte über den Preis sprechen. Budget approved, waiting for the legal department.','2026-03-04T11:00:00.000000Z',90.0,'Hat das Angebot gelesen und möchte über den Preis sprechen.','0.10',0.10000000000000000555,NULL,NULL,'2026-03-04T11:00:00.000000Z',NULL,'2025-06-23T21:43:28.000000Z','Hat das Angebot gelesen und möchte über den Preis sprechen.','["Hat das Angebot gelesen und möchte über den Preis sprechen."]','2026-03-04T11:00:00.000000Z',0,NULL,NULL,'DENIED','2026-03-04T11:00:00.000000Z',NULL,NULL,'DENIED',NULL,NULL,NULL,'2026-03-04T11:00:00.000000Z',1,'["email"]','2026-03-04T11:00:00.000000Z','UNKNOWN',NULL,NULL,NULL,NULL,'"2026-03-04T11:00:00.000Z"',NULL,'2026-03-04T12:00:00.000000Z',NULL);
INSERT INTO contact_details VALUES('ct_97cf65c3ef09','Hospitality','hi','Asia/Tokyo',NULL,'api',NULL,NULL,NULL,66.0,'لا يرد على البريد الإلكتروني، اتصل به هاتفيًا.','0.60',0.59999999999999997779,NULL,NULL,'2026-03-04T11:00:00.000000Z',NULL,'2025-12-21T09:05:23.000000Z','لا يرد على البريد الإلكتروني، اتصل به هاتفيًا.','["لا يرد على البريد الإلكتروني، اتصل به هاتفيًا."]','2026-03-04T11:00:00.000000Z',0,NULL,NULL,'DENIED','2026-03-04T11:00:00.000000Z',NULL,NULL,'DENIED',NULL,NULL,NULL,'2026-03-04T11:00:00.000000Z',1,'["webchat"]','2026-03-04T11:00:00.000000Z','UNKNOWN',NULL,NULL,NULL,NULL,'"2026-03-04T11:00:00.000Z"',NULL,'2026-03-04T12:00:00.000000Z',NULL);
INSERT INTO contact_details VALUES('ct_2aa2e7e47aca','Biotechnology','es','UTC',NULL,'form',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,'DENIED','2026-02-26T02:40:27.849000Z',NULL,NULL,'DENIED',NULL,NULL,NULL,'2026-02-26T02:40:27.849000Z',1,'["email","whatsapp","webchat"]','2026-02-26T02:40:27.849000Z','REACHABLE',NULL,NULL,NULL,NULL,'"2026-02-26T02:40:27.849Z"',NULL,'2026-03-04T12:00:00.000000Z',NULL);
INSERT INTO contact_details VALUES('ct_1188e50e6b1e','Manufacturing','es','Europe/London',NULL,'manual',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-02-17T09:04:53.653000Z',NULL,'2026-02-27T14:58:48.000000Z',NULL,NULL,NULL,0,NULL,NULL,'UNKNOWN','2026-02-17T09:04:53.653000Z',NULL,NULL,'UNKNOWN',NULL,NULL,NULL,'2026-02-17T09:04:53.653000Z',1,'["whatsapp"]','2026-02-17T09:04:53.653000Z','UNKNOWN',NULL,NULL,NULL,NULL,'"2026-03-04T13:00:00.000Z"',NULL,'2026-03-04T13:00:00.000000Z',NULL);
INSERT INTO contact_details VALUES('ct_a45c672ef6df','Biotechnology','de','America/Sao_Paulo',NULL,'manual',NULL,'Rencontrée au salon de Lyon, très intéressée par l''intégration. Budget approved, waiting for the legal department.','2026-01-31T01:03:51.327000Z',NULL,NULL,NULL,NULL,NULL,NULL,'2026-01-31T01:03:51.327000Z',NULL,'2025-04-07T10:35:33.000000Z',NULL,NULL,NULL,0,NULL,NULL,'GRANTED','2026-01-31T01:03:51.327000Z',NULL,NULL,'GRANTED',NULL,NULL,NULL,'2026-01-31T01:03:51.327000Z',1,'["email"]','2026-01-31T01:03:51.327000Z','UNKNOWN',NULL,NULL,NULL,NULL,'"2026-01-31T01:03:51.327Z"',NULL,'2026-03-04T12:00:00.000000Z','Rencontrée au salon de Lyon, très intéressée par l''intégration. Budget approved, waiting for the legal department.');
INSERT INTO contact_details VALUES('ct_1e15e67972f4','Manufacturing','de','America/Sao_Paulo',NULL,'import',NULL,'لا يرد على البريد الإلكتروني، اتصل به هاتفيًا. Wants an export as CSV.','2025-11-25T02:40:22.029000Z',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'لا يرد على البريد الإلكتروني، اتصل به هاتفيًا.','["لا يرد على البريد الإلكتروني، اتصل به هاتفيًا."]','2025-11-25T02:40:22.029000Z',0,NULL,NULL,'DENIED','2025-11-25T02:40:22.029000Z',NULL,NULL,'DENIED',NULL,NULL,NULL,'2025-11-25T02:40:22.029000Z',1,'["email","whatsapp"]','2025-11-25T02:40:22.029000Z','UNKNOWN',NULL,NULL,NULL,NULL,'"2025-11-25T02:40:22.029Z"',NULL,'2026-03-04T12:00:00.000000Z',NULL);
CREATE TABLE custom_field_definitions (
    id TEXT PRIMARY KEY NOT NULL,
    key TEXT, -- immutable public key, as used inside customFields
    label TEXT, -- display text
    data_type TEXT, -- type of the values
    object_type TEXT, -- contact or company
    status TEXT, -- ACTIVE or ARCHIVED
    created_at TEXT, -- when the definition was created
    updated_at TEXT, -- when the definition last changed
    archived_at TEXT, -- when the definition was archived
    nullable INTEGER, -- whether a value may be missing
    required INTEGER, -- whether a value is required
    readable INTEGER, -- whether values are returned
    writable INTEGER, -- whether values can be set
    filterable INTEGER, -- whether lists can be filtered by the field
    sortable INTEGER, -- whether the definition calls itself sortable
    allowed_operators TEXT, -- filter operators valid for the field, as a JSON array
    column_name TEXT, -- the column that holds the values; NULL where they are kept in extra
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
) STRICT;
INSERT INTO custom_field_definitions VALUES('cf_79b97f4a7c15','nickname','Nickname','SHORT_TEXT','contact','ACTIVE','2023-12-05T12:00:00.000000Z','2023-12-05T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_nickname',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_f372fe94f82a','customer-ref','Customer reference','SHORT_TEXT','contact','ACTIVE','2023-12-06T12:00:00.000000Z','2023-12-06T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_customer_ref',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_6d2c7ddf743f','background','Background','LONG_TEXT','contact','ACTIVE','2023-12-07T12:00:00.000000Z','2023-12-07T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["isNull"]','cf_background',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_e6e5fd29f054','children','Children','INTEGER','contact','ACTIVE','2023-12-08T12:00:00.000000Z','2023-12-08T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_children',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_609f7c746c69','lifetime_value','Lifetime value','DECIMAL','contact','ACTIVE','2023-12-09T12:00:00.000000Z','2023-12-09T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_lifetime_value',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_da58fbbee87e','newsletter','Newsletter','BOOLEAN','contact','ACTIVE','2023-12-10T12:00:00.000000Z','2023-12-10T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","isNull"]','cf_newsletter',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_54127b096493','birthday','Birthday','DATE','contact','ACTIVE','2023-12-11T12:00:00.000000Z','2023-12-11T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_birthday',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_cdcbfa53e0a8','next call','Next call','DATETIME','contact','ACTIVE','2023-12-12T12:00:00.000000Z','2023-12-12T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_next_call',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_4785799e5cbd','tier','Tier','SINGLE_SELECT','contact','ACTIVE','2023-12-13T12:00:00.000000Z','2023-12-13T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_tier',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_c13ef8e8d8d2','topics','Topics','MULTI_SELECT','contact','ACTIVE','2023-12-14T12:00:00.000000Z','2023-12-14T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["hasAny","isNull"]','cf_topics',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_3af8783354e7','Überweisung','Überweisung','DECIMAL','contact','ACTIVE','2023-12-15T12:00:00.000000Z','2023-12-15T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf__berweisung',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_b4b1f77dd0fc','Tier','Tier (old spelling)','SHORT_TEXT','contact','ACTIVE','2023-12-16T12:00:00.000000Z','2023-12-16T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_tier_2',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_2e6b76c84d11','fax','Fax','SHORT_TEXT','contact','ARCHIVED','2023-12-17T12:00:00.000000Z','2023-12-17T12:00:00.000000Z','2026-03-03T12:00:00.000000Z',1,0,1,1,1,0,'["eq","in","isNull"]','cf_fax',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_a824f612c926','account_code','Account code','SHORT_TEXT','company','ACTIVE','2023-12-18T12:00:00.000000Z','2023-12-18T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_account_code',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_21de755d453b','strategy','Strategy','LONG_TEXT','company','ACTIVE','2023-12-19T12:00:00.000000Z','2023-12-19T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["isNull"]','cf_strategy',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_9b97f4a7c150','offices','Offices','INTEGER','company','ACTIVE','2023-12-20T12:00:00.000000Z','2023-12-20T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_offices',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_155173f23d65','credit_limit','Credit limit','DECIMAL','company','ACTIVE','2023-12-21T12:00:00.000000Z','2023-12-21T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_credit_limit',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_8f0af33cb97a','public','Listed','BOOLEAN','company','ACTIVE','2023-12-22T12:00:00.000000Z','2023-12-22T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","isNull"]','cf_public',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_08c47287358f','contract_end','End of contract','DATE','company','ACTIVE','2023-12-23T12:00:00.000000Z','2023-12-23T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_contract_end',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_827df1d1b1a4','last_audit','Last audit','DATETIME','company','ACTIVE','2023-12-24T12:00:00.000000Z','2023-12-24T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_last_audit',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_fc37711c2db9','region','Region','SINGLE_SELECT','company','ACTIVE','2023-12-25T12:00:00.000000Z','2023-12-25T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_region',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_75f0f066a9ce','markets','Markets','MULTI_SELECT','company','ACTIVE','2023-12-26T12:00:00.000000Z','2023-12-26T12:00:00.000000Z',NULL,1,0,1,1,1,0,'["hasAny","isNull"]','cf_markets',NULL,'2026-03-04T12:00:00.000000Z');
INSERT INTO custom_field_definitions VALUES('cf_efaa6fb125e3','telex','Telex','SHORT_TEXT','company','ARCHIVED','2023-12-27T12:00:00.000000Z','2023-12-27T12:00:00.000000Z','2026-03-03T12:00:00.000000Z',1,0,1,1,1,0,'["eq","in","isNull"]','cf_telex',NULL,'2026-03-04T12:00:00.000000Z');
CREATE TABLE custom_field_options (
    definition_id TEXT NOT NULL REFERENCES custom_field_definitions (id),
    position INTEGER NOT NULL, -- from 0, in the service's order
    value TEXT NOT NULL, -- the public value key, as it stands in records
    label TEXT, -- display text
    PRIMARY KEY (definition_id, position)
) STRICT, WITHOUT ROWID;
INSERT INTO custom_field_options VALUES('cf_4785799e5cbd',0,'gold','Gold');
INSERT INTO custom_field_options VALUES('cf_4785799e5cbd',1,'silver','Silver');
INSERT INTO custom_field_options VALUES('cf_4785799e5cbd',2,'bronze','Bronze');
INSERT INTO custom_field_options VALUES('cf_75f0f066a9ce',0,'emea','EMEA');
INSERT INTO custom_field_options VALUES('cf_75f0f066a9ce',1,'apac','APAC');
INSERT INTO custom_field_options VALUES('cf_75f0f066a9ce',2,'amer','Americas');
INSERT INTO custom_field_options VALUES('cf_c13ef8e8d8d2',0,'pricing','Pricing');
INSERT INTO custom_field_options VALUES('cf_c13ef8e8d8d2',1,'api','API');
INSERT INTO custom_field_options VALUES('cf_c13ef8e8d8d2',2,'support','Support');
INSERT INTO custom_field_options VALUES('cf_c13ef8e8d8d2',3,'größe','Größe');
INSERT INTO custom_field_options VALUES('cf_c13ef8e8d8d2',4,'日本','日本');
INSERT INTO custom_field_options VALUES('cf_fc37711c2db9',0,'emea','EMEA');
INSERT INTO custom_field_options VALUES('cf_fc37711c2db9',1,'apac','APAC');
INSERT INTO custom_field_options VALUES('cf_fc37711c2db9',2,'amer','Americas');
CREATE TABLE custom_multi_values (
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    field_key TEXT NOT NULL, -- the definition's key
    position INTEGER NOT NULL, -- from 0, in the service's order
    value TEXT NOT NULL,
    PRIMARY KEY (object_type, record_id, field_key, position)
) STRICT, WITHOUT ROWID;
INSERT INTO custom_multi_values VALUES('company','co_372fe94f82a0','markets',2,'amer');
INSERT INTO custom_multi_values VALUES('company','co_372fe94f82a0','markets',1,'apac');
INSERT INTO custom_multi_values VALUES('company','co_372fe94f82a0','markets',0,'emea');
INSERT INTO custom_multi_values VALUES('contact','ct_b0e96899feb5','topics',0,'pricing');
INSERT INTO custom_multi_values VALUES('contact','ct_b0e96899feb5','topics',1,'support');
CREATE TABLE removed_records (
    object_type TEXT NOT NULL, -- contact or company
    id TEXT NOT NULL,
    removed_at TEXT NOT NULL, -- when the removal was confirmed, UTC
    record TEXT NOT NULL, -- the last known record, a JSON object by column
    PRIMARY KEY (object_type, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- grows with every change, never reused
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL, -- the record's id; empty where a column changed
    kind TEXT NOT NULL, -- insert, update or remove of a record; schema where a custom column changed
    fields TEXT NOT NULL, -- JSON: {column: [old, new]}; of a schema entry {column, op, from, to}, op being added, archived, restored, retyped or removed
    seen_at TEXT NOT NULL -- when the mirror saw it, UTC
) STRICT;
INSERT INTO changes VALUES(1,'contact','ct_1188e50e6b1e','update','{"etag":["\"2026-02-17T09:04:53.653Z\"","\"2026-03-04T13:00:00.000Z\""],"position":["Buyer","Harbour master"],"updated_at":["2026-02-17T09:04:53.653000Z","2026-03-04T13:00:00.000000Z"]}','2026-03-04T13:00:00.000000Z');
CREATE TABLE sync_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL, -- sync, resync, verify or push
    "trigger" TEXT NOT NULL, -- manual, schedule or demo
    started_at TEXT NOT NULL, -- UTC
    finished_at TEXT, -- NULL while running, or when the process was killed
    outcome TEXT, -- done, suspended, refused or failed
    "rows" INTEGER DEFAULT 0, -- rows that lists and details returned; NULL as the next six when the process was killed
    ru INTEGER DEFAULT 0, -- request units charged
    inserted INTEGER DEFAULT 0, -- records that were new here
    updated INTEGER DEFAULT 0, -- records that had changed
    removed INTEGER DEFAULT 0, -- records confirmed as removed
    details INTEGER DEFAULT 0, -- details read
    warnings INTEGER DEFAULT 0, -- values kept in extra, items that cannot be mirrored
    error TEXT -- why it failed or was suspended
) STRICT;
INSERT INTO sync_runs VALUES(1,'sync','test','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z','done',47,16,15,0,0,9,0,NULL);
INSERT INTO sync_runs VALUES(2,'sync','test','2026-03-04T13:00:00.000000Z','2026-03-04T13:00:00.000000Z','done',2,3,0,1,0,1,0,NULL);
CREATE TABLE audits (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    object_type TEXT NOT NULL, -- contact or company
    dimension TEXT NOT NULL, -- created_at or updated_at
    range_from TEXT, -- inclusive; NULL is open
    range_to TEXT, -- exclusive; NULL is open
    null_range INTEGER NOT NULL DEFAULT 0, -- 1: the records without a timestamp
    count_here INTEGER NOT NULL,
    count_there INTEGER NOT NULL,
    found TEXT, -- what differed, JSON; NULL where nothing did
    audited_at TEXT NOT NULL -- UTC
) STRICT;
CREATE TABLE service_oddities (
    kind TEXT NOT NULL, -- unordered_page, row_outside_filter, repeated_cursor, ...
    resource TEXT NOT NULL, -- contacts, companies, team-members or custom-fields
    what TEXT NOT NULL, -- a sentence
    first_seen_at TEXT NOT NULL, -- UTC
    last_seen_at TEXT NOT NULL, -- UTC
    times INTEGER NOT NULL,
    PRIMARY KEY (kind, resource, what)
) STRICT, WITHOUT ROWID;
CREATE TABLE mirror_columns (
    table_name TEXT NOT NULL,
    column_name TEXT NOT NULL,
    position INTEGER NOT NULL, -- from 0, in the table's order
    wire_name TEXT, -- the name in the service's answers; NULL for the mirror's own columns
    label TEXT, -- the display text of a custom field
    data_type TEXT NOT NULL, -- what it holds: text, timestamp, DECIMAL, ...
    source TEXT NOT NULL, -- list, detail, custom or mirror
    about TEXT,
    PRIMARY KEY (table_name, column_name)
) STRICT, WITHOUT ROWID;
INSERT INTO mirror_columns VALUES('audits','audited_at',9,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('audits','count_here',6,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('audits','count_there',7,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('audits','dimension',2,NULL,NULL,'text','mirror','created_at or updated_at');
INSERT INTO mirror_columns VALUES('audits','found',8,NULL,NULL,'text','mirror','what differed, JSON; NULL where nothing did');
INSERT INTO mirror_columns VALUES('audits','id',0,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('audits','null_range',5,NULL,NULL,'integer','mirror','1: the records without a timestamp');
INSERT INTO mirror_columns VALUES('audits','object_type',1,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('audits','range_from',3,NULL,NULL,'text','mirror','inclusive; NULL is open');
INSERT INTO mirror_columns VALUES('audits','range_to',4,NULL,NULL,'text','mirror','exclusive; NULL is open');
INSERT INTO mirror_columns VALUES('change_fields','column_name',4,NULL,NULL,'blob','mirror','the column of the _full view');
INSERT INTO mirror_columns VALUES('change_fields','derived',7,NULL,NULL,'text','mirror','1 for etag, updated_at and the _num companions of decimals, else 0');
INSERT INTO mirror_columns VALUES('change_fields','new_value',6,NULL,NULL,'text','mirror','what it holds since');
INSERT INTO mirror_columns VALUES('change_fields','object_type',2,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('change_fields','old_value',5,NULL,NULL,'text','mirror','what it held before');
INSERT INTO mirror_columns VALUES('change_fields','record_id',3,NULL,NULL,'text','mirror','the record''s id');
INSERT INTO mirror_columns VALUES('change_fields','seen_at',1,NULL,NULL,'text','mirror','when the mirror saw it, UTC');
INSERT INTO mirror_columns VALUES('change_fields','seq',0,NULL,NULL,'integer','mirror','the number of the change');
INSERT INTO mirror_columns VALUES('changes','fields',4,NULL,NULL,'text','mirror','JSON: {column: [old, new]}; of a schema entry {column, op, from, to}, op being added, archived, restored, retyped or removed');
INSERT INTO mirror_columns VALUES('changes','kind',3,NULL,NULL,'text','mirror','insert, update or remove of a record; schema where a custom column changed');
INSERT INTO mirror_columns VALUES('changes','object_type',1,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('changes','record_id',2,NULL,NULL,'text','mirror','the record''s id; empty where a column changed');
INSERT INTO mirror_columns VALUES('changes','seen_at',5,NULL,NULL,'text','mirror','when the mirror saw it, UTC');
INSERT INTO mirror_columns VALUES('changes','seq',0,NULL,NULL,'integer','mirror','grows with every change, never reused');
INSERT INTO mirror_columns VALUES('companies','cf_account_code',23,'customFields.account_code','Account code','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_contract_end',28,'customFields.contract_end','End of contract','DATE','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_credit_limit',25,'customFields.credit_limit','Credit limit','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_credit_limit_num',26,'customFields.credit_limit','Credit limit','number','custom','the nearest double of cf_credit_limit, for sorting and sums');
INSERT INTO mirror_columns VALUES('companies','cf_last_audit',29,'customFields.last_audit','Last audit','DATETIME','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_markets',31,'customFields.markets','Markets','MULTI_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_offices',24,'customFields.offices','Offices','INTEGER','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_public',27,'customFields.public','Listed','BOOLEAN','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_region',30,'customFields.region','Region','SINGLE_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','created_at',17,'createdAt',NULL,'timestamp','list','when the record was created');
INSERT INTO mirror_columns VALUES('companies','customer_fit_score',19,'customerFitScore',NULL,'number','list','customer fit, compared as stored');
INSERT INTO mirror_columns VALUES('companies','employee_count',5,'employeeCount',NULL,'integer','list','number of employees');
INSERT INTO mirror_columns VALUES('companies','enrichment_at',12,'enrichmentAt',NULL,'timestamp','list','when the record was enriched');
INSERT INTO mirror_columns VALUES('companies','enrichment_status',13,'enrichmentStatus',NULL,'text','list','pending, completed or failed');
INSERT INTO mirror_columns VALUES('companies','etag',20,'etag',NULL,'etag','list','version token of the record, its quotes included');
INSERT INTO mirror_columns VALUES('companies','extra',22,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('companies','hq_country',8,'hqCountry',NULL,'text','list','country of the headquarters');
INSERT INTO mirror_columns VALUES('companies','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('companies','industry',3,'industry',NULL,'text','list','industry');
INSERT INTO mirror_columns VALUES('companies','last_interaction_at',16,'lastInteractionAt',NULL,'timestamp','list','time of the last interaction');
INSERT INTO mirror_columns VALUES('companies','last_message_received_at',15,'lastMessageReceivedAt',NULL,'timestamp','list','last message received from the company');
INSERT INTO mirror_columns VALUES('companies','last_message_sent_at',14,'lastMessageSentAt',NULL,'timestamp','list','last message sent to the company');
INSERT INTO mirror_columns VALUES('companies','logo',11,'logo',NULL,'value','list','logo, exactly as the service gives it');
INSERT INTO mirror_columns VALUES('companies','name',1,'name',NULL,'text','list','name');
INSERT INTO mirror_columns VALUES('companies','owner_id',10,'ownerId',NULL,'text','list','identifier of the owning team member');
INSERT INTO mirror_columns VALUES('companies','registered_name',2,'registeredName',NULL,'text','list','registered name');
INSERT INTO mirror_columns VALUES('companies','revenue',6,'revenue',NULL,'value','list','revenue, exactly as the service gives it');
INSERT INTO mirror_columns VALUES('companies','revenue_num',7,'revenue',NULL,'number','list','the nearest double of revenue, for sorting and sums');
INSERT INTO mirror_columns VALUES('companies','sub_industry',4,'subIndustry',NULL,'text','list','part of the industry');
INSERT INTO mirror_columns VALUES('companies','synced_at',32,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('companies','updated_at',18,'updatedAt',NULL,'timestamp','list','when the record last changed');
INSERT INTO mirror_columns VALUES('companies','website_url',21,'websiteUrl',NULL,'text','list','web site');
INSERT INTO mirror_columns VALUES('companies','year_founded',9,'yearFounded',NULL,'integer','list','year of foundation');
INSERT INTO mirror_columns VALUES('companies_full','cf_account_code',26,'customFields.account_code','Account code','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_contract_end',31,'customFields.contract_end','End of contract','DATE','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_credit_limit',28,'customFields.credit_limit','Credit limit','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_credit_limit_num',29,'customFields.credit_limit','Credit limit','number','custom','the nearest double of cf_credit_limit, for sorting and sums');
INSERT INTO mirror_columns VALUES('companies_full','cf_last_audit',32,'customFields.last_audit','Last audit','DATETIME','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_markets',34,'customFields.markets','Markets','MULTI_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_offices',27,'customFields.offices','Offices','INTEGER','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_public',30,'customFields.public','Listed','BOOLEAN','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_region',33,'customFields.region','Region','SINGLE_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_strategy',35,'customFields.strategy','Strategy','LONG_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','created_at',18,'createdAt',NULL,'timestamp','list','when the record was created');
INSERT INTO mirror_columns VALUES('companies_full','customer_fit_score',20,'customerFitScore',NULL,'number','list','customer fit, compared as stored');
INSERT INTO mirror_columns VALUES('companies_full','customer_fit_score_reason',25,'customerFitScoreReason',NULL,'text','detail','reason of the customer fit');
INSERT INTO mirror_columns VALUES('companies_full','detail_extra',37,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('companies_full','details_current',40,NULL,NULL,'boolean','mirror','1 while the detail''s columns are as new as the record''s, else 0');
INSERT INTO mirror_columns VALUES('companies_full','employee_count',5,'employeeCount',NULL,'integer','list','number of employees');
INSERT INTO mirror_columns VALUES('companies_full','enrichment_at',13,'enrichmentAt',NULL,'timestamp','list','when the record was enriched');
INSERT INTO mirror_columns VALUES('companies_full','enrichment_status',14,'enrichmentStatus',NULL,'text','list','pending, completed or failed');
INSERT INTO mirror_columns VALUES('companies_full','etag',21,'etag',NULL,'etag','list','version token of the record, its quotes included');
INSERT INTO mirror_columns VALUES('companies_full','extra',36,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('companies_full','fetched_at',39,NULL,NULL,'timestamp','mirror','when the detail was asked for');
INSERT INTO mirror_columns VALUES('companies_full','hq_country',8,'hqCountry',NULL,'text','list','country of the headquarters');
INSERT INTO mirror_columns VALUES('companies_full','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('companies_full','industry',3,'industry',NULL,'text','list','industry');
INSERT INTO mirror_columns VALUES('companies_full','last_interaction_at',17,'lastInteractionAt',NULL,'timestamp','list','time of the last interaction');
INSERT INTO mirror_columns VALUES('companies_full','last_message_received_at',16,'lastMessageReceivedAt',NULL,'timestamp','list','last message received from the company');
INSERT INTO mirror_columns VALUES('companies_full','last_message_sent_at',15,'lastMessageSentAt',NULL,'timestamp','list','last message sent to the company');
INSERT INTO mirror_columns VALUES('companies_full','logo',12,'logo',NULL,'value','list','logo, exactly as the service gives it');
INSERT INTO mirror_columns VALUES('companies_full','name',1,'name',NULL,'text','list','name');
INSERT INTO mirror_columns VALUES('companies_full','notes',23,'notes',NULL,'text','detail','notes');
INSERT INTO mirror_columns VALUES('companies_full','notes_at',24,'notesAt',NULL,'timestamp','detail','when the notes last changed');
INSERT INTO mirror_columns VALUES('companies_full','owner_id',10,'ownerId',NULL,'text','list','identifier of the owning team member');
INSERT INTO mirror_columns VALUES('companies_full','owner_name',11,NULL,NULL,'text','mirror','first and last name of the owner, if that team member is mirrored');
INSERT INTO mirror_columns VALUES('companies_full','registered_name',2,'registeredName',NULL,'text','list','registered name');
INSERT INTO mirror_columns VALUES('companies_full','revenue',6,'revenue',NULL,'value','list','revenue, exactly as the service gives it');
INSERT INTO mirror_columns VALUES('companies_full','revenue_num',7,'revenue',NULL,'number','list','the nearest double of revenue, for sorting and sums');
INSERT INTO mirror_columns VALUES('companies_full','sub_industry',4,'subIndustry',NULL,'text','list','part of the industry');
INSERT INTO mirror_columns VALUES('companies_full','synced_at',38,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('companies_full','updated_at',19,'updatedAt',NULL,'timestamp','list','when the record last changed');
INSERT INTO mirror_columns VALUES('companies_full','website_url',22,'websiteUrl',NULL,'text','list','web site');
INSERT INTO mirror_columns VALUES('companies_full','year_founded',9,'yearFounded',NULL,'integer','list','year of foundation');
INSERT INTO mirror_columns VALUES('company_details','cf_strategy',6,'customFields.strategy','Strategy','LONG_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('company_details','company_id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('company_details','customer_fit_score_reason',3,'customerFitScoreReason',NULL,'text','detail','reason of the customer fit');
INSERT INTO mirror_columns VALUES('company_details','etag',4,'etag',NULL,'etag','detail','the record''s etag when this detail was read');
INSERT INTO mirror_columns VALUES('company_details','extra',5,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('company_details','fetched_at',7,NULL,NULL,'timestamp','mirror','when the detail was asked for');
INSERT INTO mirror_columns VALUES('company_details','notes',1,'notes',NULL,'text','detail','notes');
INSERT INTO mirror_columns VALUES('company_details','notes_at',2,'notesAt',NULL,'timestamp','detail','when the notes last changed');
INSERT INTO mirror_columns VALUES('company_history','column_name',1,NULL,NULL,'text','mirror','the column of the _full view');
INSERT INTO mirror_columns VALUES('company_history','id',0,NULL,NULL,'text','mirror','the record''s id');
INSERT INTO mirror_columns VALUES('company_history','valid_from',3,NULL,NULL,'text','mirror','since when, UTC; NULL: since before the history');
INSERT INTO mirror_columns VALUES('company_history','valid_to',4,NULL,NULL,'text','mirror','until when, UTC; NULL: still');
INSERT INTO mirror_columns VALUES('company_history','value',2,NULL,NULL,'text','mirror','what it held');
INSERT INTO mirror_columns VALUES('company_search','company',2,NULL,NULL,'text','mirror','registered name and web site');
INSERT INTO mirror_columns VALUES('company_search','custom',4,NULL,NULL,'text','mirror','every text custom field, one line each');
INSERT INTO mirror_columns VALUES('company_search','name',1,NULL,NULL,'text','mirror','name');
INSERT INTO mirror_columns VALUES('company_search','notes',3,NULL,NULL,'text','mirror','notes');
INSERT INTO mirror_columns VALUES('company_search','record_id',0,NULL,NULL,'text','mirror','the company''s id, for joins; not searched');
INSERT INTO mirror_columns VALUES('contact_details','cf_background',43,'customFields.background','Background','LONG_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contact_details','consent_updated_at',32,'consentUpdatedAt',NULL,'timestamp','detail','when any consent last changed');
INSERT INTO mirror_columns VALUES('contact_details','contact_id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('contact_details','contactability_updated_at',35,'contactabilityUpdatedAt',NULL,'timestamp','detail','when contactability last changed');
INSERT INTO mirror_columns VALUES('contact_details','contactable',33,'contactable',NULL,'boolean','detail','whether any channel reaches the contact');
INSERT INTO mirror_columns VALUES('contact_details','contactable_channels',34,'contactableChannels',NULL,'json','detail','the channels that do');
INSERT INTO mirror_columns VALUES('contact_details','do_not_contact',21,'doNotContact',NULL,'boolean','detail','whether the contact must not be contacted');
INSERT INTO mirror_columns VALUES('contact_details','do_not_contact_at',22,'doNotContactAt',NULL,'timestamp','detail','since when');
INSERT INTO mirror_columns VALUES('contact_details','do_not_contact_reason',23,'doNotContactReason',NULL,'text','detail','why');
INSERT INTO mirror_columns VALUES('contact_details','email_marketing_consent_status',24,'emailMarketingConsentStatus',NULL,'text','detail','consent to marketing by e-mail');
INSERT INTO mirror_columns VALUES('contact_details','email_marketing_consent_updated_at',25,'emailMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the e-mail consent changed');
INSERT INTO mirror_columns VALUES('contact_details','email_reachability_status',36,'emailReachabilityStatus',NULL,'text','detail','reachable by e-mail');
INSERT INTO mirror_columns VALUES('contact_details','etag',41,'etag',NULL,'etag','detail','the record''s etag when this detail was read');
INSERT INTO mirror_columns VALUES('contact_details','extra',42,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('contact_details','fetched_at',44,NULL,NULL,'timestamp','mirror','when the detail was asked for');
INSERT INTO mirror_columns VALUES('contact_details','industry',1,'industry',NULL,'text','detail','industry, as stored text');
INSERT INTO mirror_columns VALUES('contact_details','intent_inferred_at',15,'intentInferredAt',NULL,'timestamp','detail','when the intent was inferred');
INSERT INTO mirror_columns VALUES('contact_details','intent_reason',14,'intentReason',NULL,'text','detail','reason of the intent');
INSERT INTO mirror_columns VALUES('contact_details','language',2,'language',NULL,'text','detail','preferred language');
INSERT INTO mirror_columns VALUES('contact_details','last_message_received_at',17,'lastMessageReceivedAt',NULL,'timestamp','detail','last message received from the contact');
INSERT INTO mirror_columns VALUES('contact_details','last_message_sent_at',16,'lastMessageSentAt',NULL,'timestamp','detail','last message sent to the contact');
INSERT INTO mirror_columns VALUES('contact_details','linkedin_url',4,'linkedinUrl',NULL,'text','detail','LinkedIn profile');
INSERT INTO mirror_columns VALUES('contact_details','notes',7,'notes',NULL,'text','detail','notes');
INSERT INTO mirror_columns VALUES('contact_details','notes_at',8,'notesAt',NULL,'timestamp','detail','when the notes last changed');
INSERT INTO mirror_columns VALUES('contact_details','origin_channel',6,'originChannel',NULL,'text','detail','channel of the first contact');
INSERT INTO mirror_columns VALUES('contact_details','phone_marketing_consent_status',30,'phoneMarketingConsentStatus',NULL,'text','detail','consent to marketing by phone');
INSERT INTO mirror_columns VALUES('contact_details','phone_marketing_consent_updated_at',31,'phoneMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the phone consent changed');
INSERT INTO mirror_columns VALUES('contact_details','phone_reachability_status',40,'phoneReachabilityStatus',NULL,'text','detail','reachable by phone');
INSERT INTO mirror_columns VALUES('contact_details','qualification_confidence',11,'qualificationConfidence',NULL,'value','detail','confidence of the qualification');
INSERT INTO mirror_columns VALUES('contact_details','qualification_confidence_num',12,'qualificationConfidence',NULL,'number','detail','the nearest double of qualification_confidence, for sorting and sums');
INSERT INTO mirror_columns VALUES('contact_details','qualified_at',13,'qualifiedAt',NULL,'timestamp','detail','when the contact was qualified');
INSERT INTO mirror_columns VALUES('contact_details','reasoning',10,'reasoning',NULL,'text','detail','reasoning behind the qualification');
INSERT INTO mirror_columns VALUES('contact_details','record_source',5,'recordSource',NULL,'text','detail','where the record came from');
INSERT INTO mirror_columns VALUES('contact_details','score',9,'score',NULL,'number','detail','deprecated historical score');
INSERT INTO mirror_columns VALUES('contact_details','session_summary_at',20,'sessionSummaryAt',NULL,'timestamp','detail','when the session was summarised');
INSERT INTO mirror_columns VALUES('contact_details','session_summary_discussed',18,'sessionSummaryDiscussed',NULL,'value','detail','what the last session discussed');
INSERT INTO mirror_columns VALUES('contact_details','session_summary_requests',19,'sessionSummaryRequests',NULL,'value','detail','what the contact asked for');
INSERT INTO mirror_columns VALUES('contact_details','sms_marketing_consent_status',26,'smsMarketingConsentStatus',NULL,'text','detail','consent to marketing by SMS');
INSERT INTO mirror_columns VALUES('contact_details','sms_marketing_consent_updated_at',27,'smsMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the SMS consent changed');
INSERT INTO mirror_columns VALUES('contact_details','timezone',3,'timezone',NULL,'text','detail','time zone');
INSERT INTO mirror_columns VALUES('contact_details','web_chat_reachability_status',37,'webChatReachabilityStatus',NULL,'text','detail','reachable by web chat');
INSERT INTO mirror_columns VALUES('contact_details','whatsapp_marketing_consent_status',28,'whatsappMarketingConsentStatus',NULL,'text','detail','consent to marketing by WhatsApp');
INSERT INTO mirror_columns VALUES('contact_details','whatsapp_marketing_consent_updated_at',29,'whatsappMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the WhatsApp consent changed');
INSERT INTO mirror_columns VALUES('contact_details','whatsapp_reachability_status',38,'whatsappReachabilityStatus',NULL,'text','detail','reachable by WhatsApp');
INSERT INTO mirror_columns VALUES('contact_details','whatsapp_service_window_expires_at',39,'whatsappServiceWindowExpiresAt',NULL,'timestamp','detail','when the WhatsApp service window closes');
INSERT INTO mirror_columns VALUES('contact_history','column_name',1,NULL,NULL,'text','mirror','the column of the _full view');
INSERT INTO mirror_columns VALUES('contact_history','id',0,NULL,NULL,'text','mirror','the record''s id');
INSERT INTO mirror_columns VALUES('contact_history','valid_from',3,NULL,NULL,'text','mirror','since when, UTC; NULL: since before the history');
INSERT INTO mirror_columns VALUES('contact_history','valid_to',4,NULL,NULL,'text','mirror','until when, UTC; NULL: still');
INSERT INTO mirror_columns VALUES('contact_history','value',2,NULL,NULL,'text','mirror','what it held');
INSERT INTO mirror_columns VALUES('contact_search','company',3,NULL,NULL,'text','mirror','company text');
INSERT INTO mirror_columns VALUES('contact_search','custom',7,NULL,NULL,'text','mirror','every text custom field, one line each');
INSERT INTO mirror_columns VALUES('contact_search','email',2,NULL,NULL,'text','mirror','primary e-mail address');
INSERT INTO mirror_columns VALUES('contact_search','name',1,NULL,NULL,'text','mirror','full name, first and last name');
INSERT INTO mirror_columns VALUES('contact_search','notes',5,NULL,NULL,'text','mirror','notes');
INSERT INTO mirror_columns VALUES('contact_search','position',4,NULL,NULL,'text','mirror','job title');
INSERT INTO mirror_columns VALUES('contact_search','record_id',0,NULL,NULL,'text','mirror','the contact''s id, for joins; not searched');
INSERT INTO mirror_columns VALUES('contact_search','summaries',6,NULL,NULL,'text','mirror','what the last session discussed, and what the contact asked for');
INSERT INTO mirror_columns VALUES('contacts','cf__berweisung',33,'customFields.Überweisung','Überweisung','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf__berweisung_num',34,'customFields.Überweisung','Überweisung','number','custom','the nearest double of cf__berweisung, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts','cf_birthday',29,'customFields.birthday','Birthday','DATE','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_children',25,'customFields.children','Children','INTEGER','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_customer_ref',24,'customFields.customer-ref','Customer reference','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_lifetime_value',26,'customFields.lifetime_value','Lifetime value','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_lifetime_value_num',27,'customFields.lifetime_value','Lifetime value','number','custom','the nearest double of cf_lifetime_value, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts','cf_newsletter',28,'customFields.newsletter','Newsletter','BOOLEAN','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_next_call',30,'customFields.next call','Next call','DATETIME','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_nickname',23,'customFields.nickname','Nickname','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_tier',31,'customFields.tier','Tier','SINGLE_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_tier_2',35,'customFields.Tier','Tier (old spelling)','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_topics',32,'customFields.topics','Topics','MULTI_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','company',7,'company',NULL,'text','list','company text');
INSERT INTO mirror_columns VALUES('contacts','company_id',8,'companyId',NULL,'text','list','identifier of the company');
INSERT INTO mirror_columns VALUES('contacts','created_at',11,'createdAt',NULL,'timestamp','list','when the record was created');
INSERT INTO mirror_columns VALUES('contacts','email',4,'email',NULL,'text','list','primary e-mail address; read-only through the API');
INSERT INTO mirror_columns VALUES('contacts','enrichment_at',17,'enrichmentAt',NULL,'timestamp','list','when the record was enriched');
INSERT INTO mirror_columns VALUES('contacts','enrichment_status',16,'enrichmentStatus',NULL,'text','list','pending, completed or failed');
INSERT INTO mirror_columns VALUES('contacts','etag',18,'etag',NULL,'etag','list','version token of the record, its quotes included');
INSERT INTO mirror_columns VALUES('contacts','extra',22,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('contacts','first_name',2,'firstName',NULL,'text','list','first name');
INSERT INTO mirror_columns VALUES('contacts','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('contacts','intent_level',14,'intentLevel',NULL,'text','list','HIGH, MED or LOW');
INSERT INTO mirror_columns VALUES('contacts','intent_type',13,'intentType',NULL,'text','list','kind of intent');
INSERT INTO mirror_columns VALUES('contacts','last_interaction_at',15,'lastInteractionAt',NULL,'timestamp','list','time of the last interaction');
INSERT INTO mirror_columns VALUES('contacts','last_name',3,'lastName',NULL,'text','list','last name');
INSERT INTO mirror_columns VALUES('contacts','location_city',21,'location.city',NULL,'text','list','city');
INSERT INTO mirror_columns VALUES('contacts','location_country',19,'location.country',NULL,'text','list','country, as stored text');
INSERT INTO mirror_columns VALUES('contacts','location_region',20,'location.region',NULL,'text','list','region');
INSERT INTO mirror_columns VALUES('contacts','mobile',5,'mobile',NULL,'text','list','primary mobile number; read-only through the API');
INSERT INTO mirror_columns VALUES('contacts','name',1,'name',NULL,'text','list','full name');
INSERT INTO mirror_columns VALUES('contacts','owner_id',9,'ownerId',NULL,'text','list','identifier of the owning team member');
INSERT INTO mirror_columns VALUES('contacts','position',6,'position',NULL,'text','list','job title');
INSERT INTO mirror_columns VALUES('contacts','qualification',10,'qualification',NULL,'boolean','list','whether the contact is qualified');
INSERT INTO mirror_columns VALUES('contacts','synced_at',36,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('contacts','updated_at',12,'updatedAt',NULL,'timestamp','list','when the record last changed');
INSERT INTO mirror_columns VALUES('contacts_full','cf__berweisung',74,'customFields.Überweisung','Überweisung','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf__berweisung_num',75,'customFields.Überweisung','Überweisung','number','custom','the nearest double of cf__berweisung, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts_full','cf_background',77,'customFields.background','Background','LONG_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_birthday',70,'customFields.birthday','Birthday','DATE','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_children',66,'customFields.children','Children','INTEGER','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_customer_ref',65,'customFields.customer-ref','Customer reference','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_lifetime_value',67,'customFields.lifetime_value','Lifetime value','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_lifetime_value_num',68,'customFields.lifetime_value','Lifetime value','number','custom','the nearest double of cf_lifetime_value, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts_full','cf_newsletter',69,'customFields.newsletter','Newsletter','BOOLEAN','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_next_call',71,'customFields.next call','Next call','DATETIME','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_nickname',64,'customFields.nickname','Nickname','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_tier',72,'customFields.tier','Tier','SINGLE_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_tier_2',76,'customFields.Tier','Tier (old spelling)','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_topics',73,'customFields.topics','Topics','MULTI_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','company',7,'company',NULL,'text','list','company text');
INSERT INTO mirror_columns VALUES('contacts_full','company_id',8,'companyId',NULL,'text','list','identifier of the company');
INSERT INTO mirror_columns VALUES('contacts_full','company_name',9,NULL,NULL,'text','mirror','name of the company, if that company is mirrored');
INSERT INTO mirror_columns VALUES('contacts_full','consent_updated_at',55,'consentUpdatedAt',NULL,'timestamp','detail','when any consent last changed');
INSERT INTO mirror_columns VALUES('contacts_full','contactability_updated_at',58,'contactabilityUpdatedAt',NULL,'timestamp','detail','when contactability last changed');
INSERT INTO mirror_columns VALUES('contacts_full','contactable',56,'contactable',NULL,'boolean','detail','whether any channel reaches the contact');
INSERT INTO mirror_columns VALUES('contacts_full','contactable_channels',57,'contactableChannels',NULL,'json','detail','the channels that do');
INSERT INTO mirror_columns VALUES('contacts_full','created_at',13,'createdAt',NULL,'timestamp','list','when the record was created');
INSERT INTO mirror_columns VALUES('contacts_full','detail_extra',79,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('contacts_full','details_current',82,NULL,NULL,'boolean','mirror','1 while the detail''s columns are as new as the record''s, else 0');
INSERT INTO mirror_columns VALUES('contacts_full','do_not_contact',44,'doNotContact',NULL,'boolean','detail','whether the contact must not be contacted');
INSERT INTO mirror_columns VALUES('contacts_full','do_not_contact_at',45,'doNotContactAt',NULL,'timestamp','detail','since when');
INSERT INTO mirror_columns VALUES('contacts_full','do_not_contact_reason',46,'doNotContactReason',NULL,'text','detail','why');
INSERT INTO mirror_columns VALUES('contacts_full','email',4,'email',NULL,'text','list','primary e-mail address; read-only through the API');
INSERT INTO mirror_columns VALUES('contacts_full','email_marketing_consent_status',47,'emailMarketingConsentStatus',NULL,'text','detail','consent to marketing by e-mail');
INSERT INTO mirror_columns VALUES('contacts_full','email_marketing_consent_updated_at',48,'emailMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the e-mail consent changed');
INSERT INTO mirror_columns VALUES('contacts_full','email_reachability_status',59,'emailReachabilityStatus',NULL,'text','detail','reachable by e-mail');
INSERT INTO mirror_columns VALUES('contacts_full','enrichment_at',19,'enrichmentAt',NULL,'timestamp','list','when the record was enriched');
INSERT INTO mirror_columns VALUES('contacts_full','enrichment_status',18,'enrichmentStatus',NULL,'text','list','pending, completed or failed');
INSERT INTO mirror_columns VALUES('contacts_full','etag',20,'etag',NULL,'etag','list','version token of the record, its quotes included');
INSERT INTO mirror_columns VALUES('contacts_full','extra',78,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('contacts_full','fetched_at',81,NULL,NULL,'timestamp','mirror','when the detail was asked for');
INSERT INTO mirror_columns VALUES('contacts_full','first_name',2,'firstName',NULL,'text','list','first name');
INSERT INTO mirror_columns VALUES('contacts_full','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('contacts_full','industry',24,'industry',NULL,'text','detail','industry, as stored text');
INSERT INTO mirror_columns VALUES('contacts_full','intent_inferred_at',38,'intentInferredAt',NULL,'timestamp','detail','when the intent was inferred');
INSERT INTO mirror_columns VALUES('contacts_full','intent_level',16,'intentLevel',NULL,'text','list','HIGH, MED or LOW');
INSERT INTO mirror_columns VALUES('contacts_full','intent_reason',37,'intentReason',NULL,'text','detail','reason of the intent');
INSERT INTO mirror_columns VALUES('contacts_full','intent_type',15,'intentType',NULL,'text','list','kind of intent');
INSERT INTO mirror_columns VALUES('contacts_full','language',25,'language',NULL,'text','detail','preferred language');
INSERT INTO mirror_columns VALUES('contacts_full','last_interaction_at',17,'lastInteractionAt',NULL,'timestamp','list','time of the last interaction');
INSERT INTO mirror_columns VALUES('contacts_full','last_message_received_at',40,'lastMessageReceivedAt',NULL,'timestamp','detail','last message received from the contact');
INSERT INTO mirror_columns VALUES('contacts_full','last_message_sent_at',39,'lastMessageSentAt',NULL,'timestamp','detail','last message sent to the contact');
INSERT INTO mirror_columns VALUES('contacts_full','last_name',3,'lastName',NULL,'text','list','last name');
INSERT INTO mirror_columns VALUES('contacts_full','linkedin_url',27,'linkedinUrl',NULL,'text','detail','LinkedIn profile');
INSERT INTO mirror_columns VALUES('contacts_full','location_city',23,'location.city',NULL,'text','list','city');
INSERT INTO mirror_columns VALUES('contacts_full','location_country',21,'location.country',NULL,'text','list','country, as stored text');
INSERT INTO mirror_columns VALUES('contacts_full','location_region',22,'location.region',NULL,'text','list','region');
INSERT INTO mirror_columns VALUES('contacts_full','mobile',5,'mobile',NULL,'text','list','primary mobile number; read-only through the API');
INSERT INTO mirror_columns VALUES('contacts_full','name',1,'name',NULL,'text','list','full name');
INSERT INTO mirror_columns VALUES('contacts_full','notes',30,'notes',NULL,'text','detail','notes');
INSERT INTO mirror_columns VALUES('contacts_full','notes_at',31,'notesAt',NULL,'timestamp','detail','when the notes last changed');
INSERT INTO mirror_columns VALUES('contacts_full','origin_channel',29,'originChannel',NULL,'text','detail','channel of the first contact');
INSERT INTO mirror_columns VALUES('contacts_full','owner_id',10,'ownerId',NULL,'text','list','identifier of the owning team member');
INSERT INTO mirror_columns VALUES('contacts_full','owner_name',11,NULL,NULL,'text','mirror','first and last name of the owner, if that team member is mirrored');
INSERT INTO mirror_columns VALUES('contacts_full','phone_marketing_consent_status',53,'phoneMarketingConsentStatus',NULL,'text','detail','consent to marketing by phone');
INSERT INTO mirror_columns VALUES('contacts_full','phone_marketing_consent_updated_at',54,'phoneMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the phone consent changed');
INSERT INTO mirror_columns VALUES('contacts_full','phone_reachability_status',63,'phoneReachabilityStatus',NULL,'text','detail','reachable by phone');
INSERT INTO mirror_columns VALUES('contacts_full','position',6,'position',NULL,'text','list','job title');
INSERT INTO mirror_columns VALUES('contacts_full','qualification',12,'qualification',NULL,'boolean','list','whether the contact is qualified');
INSERT INTO mirror_columns VALUES('contacts_full','qualification_confidence',34,'qualificationConfidence',NULL,'value','detail','confidence of the qualification');
INSERT INTO mirror_columns VALUES('contacts_full','qualification_confidence_num',35,'qualificationConfidence',NULL,'number','detail','the nearest double of qualification_confidence, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts_full','qualified_at',36,'qualifiedAt',NULL,'timestamp','detail','when the contact was qualified');
INSERT INTO mirror_columns VALUES('contacts_full','reasoning',33,'reasoning',NULL,'text','detail','reasoning behind the qualification');
INSERT INTO mirror_columns VALUES('contacts_full','record_source',28,'recordSource',NULL,'text','detail','where the record came from');
INSERT INTO mirror_columns VALUES('contacts_full','score',32,'score',NULL,'number','detail','deprecated historical score');
INSERT INTO mirror_columns VALUES('contacts_full','session_summary_at',43,'sessionSummaryAt',NULL,'timestamp','detail','when the session was summarised');
INSERT INTO mirror_columns VALUES('contacts_full','session_summary_discussed',41,'sessionSummaryDiscussed',NULL,'value','detail','what the last session discussed');
INSERT INTO mirror_columns VALUES('contacts_full','session_summary_requests',42,'sessionSummaryRequests',NULL,'value','detail','what the contact asked for');
INSERT INTO mirror_columns VALUES('contacts_full','sms_marketing_consent_status',49,'smsMarketingConsentStatus',NULL,'text','detail','consent to marketing by SMS');
INSERT INTO mirror_columns VALUES('contacts_full','sms_marketing_consent_updated_at',50,'smsMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the SMS consent changed');
INSERT INTO mirror_columns VALUES('contacts_full','synced_at',80,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('contacts_full','timezone',26,'timezone',NULL,'text','detail','time zone');
INSERT INTO mirror_columns VALUES('contacts_full','updated_at',14,'updatedAt',NULL,'timestamp','list','when the record last changed');
INSERT INTO mirror_columns VALUES('contacts_full','web_chat_reachability_status',60,'webChatReachabilityStatus',NULL,'text','detail','reachable by web chat');
INSERT INTO mirror_columns VALUES('contacts_full','whatsapp_marketing_consent_status',51,'whatsappMarketingConsentStatus',NULL,'text','detail','consent to marketing by WhatsApp');
INSERT INTO mirror_columns VALUES('contacts_full','whatsapp_marketing_consent_updated_at',52,'whatsappMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the WhatsApp consent changed');
INSERT INTO mirror_columns VALUES('contacts_full','whatsapp_reachability_status',61,'whatsappReachabilityStatus',NULL,'text','detail','reachable by WhatsApp');
INSERT INTO mirror_columns VALUES('contacts_full','whatsapp_service_window_expires_at',62,'whatsappServiceWindowExpiresAt',NULL,'timestamp','detail','when the WhatsApp service window closes');
INSERT INTO mirror_columns VALUES('custom_field_definitions','allowed_operators',15,'allowedOperators',NULL,'json','list','filter operators valid for the field, as a JSON array');
INSERT INTO mirror_columns VALUES('custom_field_definitions','archived_at',8,'archivedAt',NULL,'timestamp','list','when the definition was archived');
INSERT INTO mirror_columns VALUES('custom_field_definitions','column_name',16,NULL,NULL,'text','mirror','the column that holds the values; NULL where they are kept in extra');
INSERT INTO mirror_columns VALUES('custom_field_definitions','created_at',6,'createdAt',NULL,'timestamp','list','when the definition was created');
INSERT INTO mirror_columns VALUES('custom_field_definitions','data_type',3,'dataType',NULL,'text','list','type of the values');
INSERT INTO mirror_columns VALUES('custom_field_definitions','extra',17,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('custom_field_definitions','filterable',13,'filterable',NULL,'boolean','list','whether lists can be filtered by the field');
INSERT INTO mirror_columns VALUES('custom_field_definitions','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('custom_field_definitions','key',1,'key',NULL,'text','list','immutable public key, as used inside customFields');
INSERT INTO mirror_columns VALUES('custom_field_definitions','label',2,'label',NULL,'text','list','display text');
INSERT INTO mirror_columns VALUES('custom_field_definitions','nullable',9,'nullable',NULL,'boolean','list','whether a value may be missing');
INSERT INTO mirror_columns VALUES('custom_field_definitions','object_type',4,'objectType',NULL,'text','list','contact or company');
INSERT INTO mirror_columns VALUES('custom_field_definitions','readable',11,'readable',NULL,'boolean','list','whether values are returned');
INSERT INTO mirror_columns VALUES('custom_field_definitions','required',10,'required',NULL,'boolean','list','whether a value is required');
INSERT INTO mirror_columns VALUES('custom_field_definitions','sortable',14,'sortable',NULL,'boolean','list','whether the definition calls itself sortable');
INSERT INTO mirror_columns VALUES('custom_field_definitions','status',5,'status',NULL,'text','list','ACTIVE or ARCHIVED');
INSERT INTO mirror_columns VALUES('custom_field_definitions','synced_at',18,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('custom_field_definitions','updated_at',7,'updatedAt',NULL,'timestamp','list','when the definition last changed');
INSERT INTO mirror_columns VALUES('custom_field_definitions','writable',12,'writable',NULL,'boolean','list','whether values can be set');
INSERT INTO mirror_columns VALUES('custom_field_options','definition_id',0,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('custom_field_options','label',3,NULL,NULL,'text','mirror','display text');
INSERT INTO mirror_columns VALUES('custom_field_options','position',1,NULL,NULL,'integer','mirror','from 0, in the service''s order');
INSERT INTO mirror_columns VALUES('custom_field_options','value',2,NULL,NULL,'text','mirror','the public value key, as it stands in records');
INSERT INTO mirror_columns VALUES('custom_multi_values','field_key',2,NULL,NULL,'text','mirror','the definition''s key');
INSERT INTO mirror_columns VALUES('custom_multi_values','object_type',0,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('custom_multi_values','position',3,NULL,NULL,'integer','mirror','from 0, in the service''s order');
INSERT INTO mirror_columns VALUES('custom_multi_values','record_id',1,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('custom_multi_values','value',4,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('mirror_columns','about',7,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('mirror_columns','column_name',1,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('mirror_columns','data_type',5,NULL,NULL,'text','mirror','what it holds: text, timestamp, DECIMAL, ...');
INSERT INTO mirror_columns VALUES('mirror_columns','label',4,NULL,NULL,'text','mirror','the display text of a custom field');
INSERT INTO mirror_columns VALUES('mirror_columns','position',2,NULL,NULL,'integer','mirror','from 0, in the table''s order');
INSERT INTO mirror_columns VALUES('mirror_columns','source',6,NULL,NULL,'text','mirror','list, detail, custom or mirror');
INSERT INTO mirror_columns VALUES('mirror_columns','table_name',0,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('mirror_columns','wire_name',3,NULL,NULL,'text','mirror','the name in the service''s answers; NULL for the mirror''s own columns');
INSERT INTO mirror_columns VALUES('outbox','answer',14,NULL,NULL,'text','mirror','what the service said, or why the edit was refused here, JSON');
INSERT INTO mirror_columns VALUES('outbox','attempts',10,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('outbox','base_etag',6,NULL,NULL,'text','mirror','the version of the record that the edit was made on');
INSERT INTO mirror_columns VALUES('outbox','body',7,NULL,NULL,'text','mirror','the request''s body, byte for byte; set before it is first sent');
INSERT INTO mirror_columns VALUES('outbox','fields',5,NULL,NULL,'text','mirror','JSON, {column: [before, after]} as the mirror''s columns have them; an unknown before is an object');
INSERT INTO mirror_columns VALUES('outbox','finished_at',18,NULL,NULL,'text','mirror','UTC; when it was applied, rejected, dropped or replaced');
INSERT INTO mirror_columns VALUES('outbox','first_sent_at',11,NULL,NULL,'text','mirror','UTC; when this body was first sent');
INSERT INTO mirror_columns VALUES('outbox','id',0,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('outbox','idempotency_key',9,NULL,NULL,'text','mirror','set with the body; a retry repeats all three');
INSERT INTO mirror_columns VALUES('outbox','if_match',8,NULL,NULL,'text','mirror','the version that the request replaces; set with the body');
INSERT INTO mirror_columns VALUES('outbox','last_sent_at',12,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('outbox','merged_into',16,NULL,NULL,'integer','mirror','the edit of the same record that carries this one along');
INSERT INTO mirror_columns VALUES('outbox','object_type',1,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('outbox','queued_at',17,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('outbox','record_id',2,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('outbox','released_at',20,NULL,NULL,'text','mirror','UTC; when a person let it pass `write_back.max_edits`');
INSERT INTO mirror_columns VALUES('outbox','source',4,NULL,NULL,'text','mirror','sql, edit, undo or assistant');
INSERT INTO mirror_columns VALUES('outbox','state',3,NULL,NULL,'text','mirror','queued, held, sending, applied, conflict, rejected, dropped or replaced');
INSERT INTO mirror_columns VALUES('outbox','status',13,NULL,NULL,'integer','mirror','the HTTP status of the last answer; NULL where none came');
INSERT INTO mirror_columns VALUES('outbox','theirs',15,NULL,NULL,'text','mirror','in a conflict, what the edited columns hold at the service, JSON, {column: value}');
INSERT INTO mirror_columns VALUES('outbox','tried_at',19,NULL,NULL,'text','mirror','when a request with it was first sent, whatever came of it; UTC by a clock that nobody sets');
INSERT INTO mirror_columns VALUES('outbox','undoes',21,NULL,NULL,'integer','mirror','the applied edit that it takes back, the last one of several');
INSERT INTO mirror_columns VALUES('outbox_events','at',2,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('outbox_events','from_state',3,NULL,NULL,'text','mirror','NULL where the edit was made');
INSERT INTO mirror_columns VALUES('outbox_events','id',0,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('outbox_events','outbox_id',1,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('outbox_events','to_state',4,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('outbox_events','who',5,NULL,NULL,'text','mirror','a user of the operating system, sql for a shell, mcp for an assistant; NULL where crm-mirror did it by itself');
INSERT INTO mirror_columns VALUES('outbox_events','why',6,NULL,NULL,'text','mirror','a sentence');
INSERT INTO mirror_columns VALUES('pending_edits','after',7,NULL,NULL,'text','mirror','what it is to hold');
INSERT INTO mirror_columns VALUES('pending_edits','before',5,NULL,NULL,'text','mirror','what the column held when the edit was made');
INSERT INTO mirror_columns VALUES('pending_edits','before_known',6,NULL,NULL,'text','mirror','0 if that was unknown: then it replaces nothing but an empty value');
INSERT INTO mirror_columns VALUES('pending_edits','column_name',4,NULL,NULL,'blob','mirror','the column that was edited');
INSERT INTO mirror_columns VALUES('pending_edits','edit_id',0,NULL,NULL,'integer','mirror','the edit''s id in outbox');
INSERT INTO mirror_columns VALUES('pending_edits','name',3,NULL,NULL,'text','mirror','what the record is called');
INSERT INTO mirror_columns VALUES('pending_edits','object_type',1,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('pending_edits','record_id',2,NULL,NULL,'text','mirror','the record''s id');
INSERT INTO mirror_columns VALUES('pending_edits','since',10,NULL,NULL,'text','mirror','when the edit was made, UTC');
INSERT INTO mirror_columns VALUES('pending_edits','state',9,NULL,NULL,'text','mirror','queued, held, sending or conflict');
INSERT INTO mirror_columns VALUES('pending_edits','theirs',8,NULL,NULL,'text','mirror','in a conflict, what it holds at the service');
INSERT INTO mirror_columns VALUES('removed_records','id',1,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('removed_records','object_type',0,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('removed_records','record',3,NULL,NULL,'text','mirror','the last known record, a JSON object by column');
INSERT INTO mirror_columns VALUES('removed_records','removed_at',2,NULL,NULL,'text','mirror','when the removal was confirmed, UTC');
INSERT INTO mirror_columns VALUES('search_documents','docid',0,NULL,NULL,'integer','mirror','the rowid in contact_search or company_search');
INSERT INTO mirror_columns VALUES('search_documents','is_company',1,NULL,NULL,'integer','mirror','0: of a contact, 1: of a company');
INSERT INTO mirror_columns VALUES('search_documents','record_id',2,NULL,NULL,'text','mirror','the record''s id');
INSERT INTO mirror_columns VALUES('select_labels','column_name',2,NULL,NULL,'text','mirror','the column that holds the values');
INSERT INTO mirror_columns VALUES('select_labels','field_key',1,NULL,NULL,'text','mirror','the definition''s key');
INSERT INTO mirror_columns VALUES('select_labels','label',5,NULL,NULL,'text','mirror','display text');
INSERT INTO mirror_columns VALUES('select_labels','object_type',0,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('select_labels','position',3,NULL,NULL,'integer','mirror','from 0, in the service''s order');
INSERT INTO mirror_columns VALUES('select_labels','value',4,NULL,NULL,'text','mirror','the public value key, as it stands in records');
INSERT INTO mirror_columns VALUES('service_oddities','first_seen_at',3,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('service_oddities','kind',0,NULL,NULL,'text','mirror','unordered_page, row_outside_filter, repeated_cursor, ...');
INSERT INTO mirror_columns VALUES('service_oddities','last_seen_at',4,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('service_oddities','resource',1,NULL,NULL,'text','mirror','contacts, companies, team-members or custom-fields');
INSERT INTO mirror_columns VALUES('service_oddities','times',5,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('service_oddities','what',2,NULL,NULL,'text','mirror','a sentence');
INSERT INTO mirror_columns VALUES('sync_runs','details',11,NULL,NULL,'integer','mirror','details read');
INSERT INTO mirror_columns VALUES('sync_runs','error',13,NULL,NULL,'text','mirror','why it failed or was suspended');
INSERT INTO mirror_columns VALUES('sync_runs','finished_at',4,NULL,NULL,'text','mirror','NULL while running, or when the process was killed');
INSERT INTO mirror_columns VALUES('sync_runs','id',0,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('sync_runs','inserted',8,NULL,NULL,'integer','mirror','records that were new here');
INSERT INTO mirror_columns VALUES('sync_runs','kind',1,NULL,NULL,'text','mirror','sync, resync, verify or push');
INSERT INTO mirror_columns VALUES('sync_runs','outcome',5,NULL,NULL,'text','mirror','done, suspended, refused or failed');
INSERT INTO mirror_columns VALUES('sync_runs','removed',10,NULL,NULL,'integer','mirror','records confirmed as removed');
INSERT INTO mirror_columns VALUES('sync_runs','rows',6,NULL,NULL,'integer','mirror','rows that lists and details returned; NULL as the next six when the process was killed');
INSERT INTO mirror_columns VALUES('sync_runs','ru',7,NULL,NULL,'integer','mirror','request units charged');
INSERT INTO mirror_columns VALUES('sync_runs','started_at',3,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('sync_runs','trigger',2,NULL,NULL,'text','mirror','manual, schedule or demo');
INSERT INTO mirror_columns VALUES('sync_runs','updated',9,NULL,NULL,'integer','mirror','records that had changed');
INSERT INTO mirror_columns VALUES('sync_runs','warnings',12,NULL,NULL,'integer','mirror','values kept in extra, items that cannot be mirrored');
INSERT INTO mirror_columns VALUES('team_members','created_at',6,'createdAt',NULL,'timestamp','list','when the member was created');
INSERT INTO mirror_columns VALUES('team_members','email',4,'email',NULL,'text','list','e-mail address');
INSERT INTO mirror_columns VALUES('team_members','etag',8,'etag',NULL,'etag','list','version token of the member, its quotes included');
INSERT INTO mirror_columns VALUES('team_members','extra',9,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('team_members','first_name',1,'firstName',NULL,'text','list','first name');
INSERT INTO mirror_columns VALUES('team_members','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('team_members','last_name',2,'lastName',NULL,'text','list','last name');
INSERT INTO mirror_columns VALUES('team_members','status',5,'status',NULL,'text','list','ACTIVE, INACTIVE, SUSPENDED or PENDING');
INSERT INTO mirror_columns VALUES('team_members','synced_at',10,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('team_members','updated_at',7,'updatedAt',NULL,'timestamp','list','when the member last changed');
INSERT INTO mirror_columns VALUES('team_members','username',3,'username',NULL,'text','list','user name');
CREATE TABLE state (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO state VALUES('built_from','{"revision":"1-e8e1ab11","layout":3,"objects":83,"options":{"keep_archived":false,"indexes":[],"folder":null,"exclude":[]},"files":{"digest":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","views":{},"refused":{}},"erased":[],"rewrites":0}');
INSERT INTO state VALUES('held:company','{"rows":3,"details_current":3}');
INSERT INTO state VALUES('held:contact','{"rows":6,"details_current":6}');
INSERT INTO state VALUES('history_marks','[{"clock":[1772625600000000,0,1772625600000000,[0,0]],"changes":0,"audits":0,"runs":1}]');
INSERT INTO state VALUES('identity','{"base_url":"http://127.0.0.1:8080/v1","key":"dcd8083289ec23aa"}');
INSERT INTO state VALUES('last_writer','{"nonce":"a4e7660f3e54447b86e77fa7c27122f0","before":"d6f360a6378246bdbfd235e7b5a49ade","requests":0,"file":{"inode":10158084,"born":"1796100035648486484","volume":6323275746972901274,"boot":2839010224},"log":{"inode":10158086,"born":"1796100035648863323","volume":6323275746972901274,"boot":2839010224},"closed":false}');
INSERT INTO state VALUES('ledger','{"since":"2026-03-04T00:00:00.000000Z","used":19,"total":19,"window":1,"clock":[1772629200000000,3600000000,1772629200000000,[0,3600000000]],"set_back":{"secs":0,"nanos":0},"hold":null}');
INSERT INTO state VALUES('mirror_id','"c9a2990f70bdca2c913b8b4c"');
INSERT INTO state VALUES('searched:company','["r.cf_account_code","d.cf_strategy"]');
INSERT INTO state VALUES('searched:contact','["r.cf_nickname","r.cf_customer_ref","d.cf_background","r.cf_tier_2"]');
INSERT INTO state VALUES('service_time','{"at_least":"2026-03-04T13:00:00.000000Z","date":"2026-03-04T13:00:00.000000Z","wall":"2026-03-04T13:00:00.000000Z","monotonic":{"boot":0,"micros":3600000000}}');
INSERT INTO state VALUES('write_back','false');
CREATE TABLE doubts (
    object_type TEXT NOT NULL, -- contact, company; contact_key, company_key; of lists that are read whole: team_member,
    -- contact_field, company_field; contact_range, company_range; workspace
    record_id TEXT NOT NULL, -- or of a definition; a key; a range of time; the key and address that saw the workspace; '' for all
    why TEXT NOT NULL, -- of a record: missed, older, gone (without a version it only counts), omitted, null group, failed; of a
    -- definition: lacked; of a key: unknown key; of an item: unlisted, gone; of a range that was read by cursor: created_at,
    -- updated_at; of one of records that share both: tie; of a workspace: unrecognised
    etag TEXT, -- the version that was seen
    version TEXT, -- its `updatedAt`; of a null group: what was null; of a definition: how many records lacked it
    tries INTEGER NOT NULL DEFAULT 0, -- lookups, failures or readings so far; removals that count for the guard
    first_seen TEXT, -- the first moment of the same answer; this and the next one by the ledger's steady clock
    not_before TEXT, -- when the next lookup is due
    PRIMARY KEY (object_type, why, record_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE goals (
    object TEXT NOT NULL, -- contact or company; team-members, custom-fields; what a scope is for; '' for the workspace
    kind TEXT NOT NULL,
    definition TEXT NOT NULL DEFAULT '', -- of a custom field, for what is said of a column; a scope
    since TEXT, -- the clock when the read began; what a detail has to be later than to show the value of a filled column
    finished TEXT, -- the clock when it ended
    steady TEXT, -- the ledger's steady clock when it began
    cost INTEGER, -- in RU
    open INTEGER NOT NULL DEFAULT 0, -- differences that a comparison left, removals that are refused, records that a sweep left out
    PRIMARY KEY (object, kind, definition)
) STRICT, WITHOUT ROWID;
INSERT INTO goals VALUES('company','changes','','2026-03-04T13:00:00.000000Z','2026-03-04T13:00:00.000000Z',NULL,NULL,0);
INSERT INTO goals VALUES('company','compared','','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z',NULL,NULL,0);
INSERT INTO goals VALUES('company','copied','',NULL,'2026-03-04T12:00:00.000000Z',NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_08c47287358f',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_155173f23d65',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_21de755d453b',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_75f0f066a9ce',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_827df1d1b1a4',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_8f0af33cb97a',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_9b97f4a7c150',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_a824f612c926',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','filled','cf_fc37711c2db9',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('company','sweep','','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z',NULL,NULL,0);
INSERT INTO goals VALUES('contact','changes','','2026-03-04T13:00:00.000000Z','2026-03-04T13:00:00.000000Z',NULL,NULL,0);
INSERT INTO goals VALUES('contact','compared','','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z',NULL,NULL,0);
INSERT INTO goals VALUES('contact','copied','',NULL,'2026-03-04T12:00:00.000000Z',NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_3af8783354e7',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_4785799e5cbd',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_54127b096493',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_609f7c746c69',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_6d2c7ddf743f',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_79b97f4a7c15',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_b4b1f77dd0fc',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_c13ef8e8d8d2',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_cdcbfa53e0a8',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_da58fbbee87e',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_e6e5fd29f054',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','filled','cf_f372fe94f82a',NULL,NULL,NULL,NULL,0);
INSERT INTO goals VALUES('contact','sweep','','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z',NULL,NULL,0);
INSERT INTO goals VALUES('custom-fields','list','','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z',4,0);
INSERT INTO goals VALUES('team-members','list','','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z','2026-03-04T12:00:00.000000Z',1,0);
CREATE TABLE frontier (
    object TEXT PRIMARY KEY NOT NULL, -- contact or company
    watermark TEXT, -- the highest `updatedAt` that a finished walk applied
    served_at TEXT, -- the service's clock when that walk began; NULL if it does not tell the time
    doubt_from TEXT -- where the next walk begins at the latest: an earlier version was accepted since the last one began
) STRICT, WITHOUT ROWID;
INSERT INTO frontier VALUES('company','2026-03-04T11:00:00.000000Z','2026-03-04T13:00:00.000000Z',NULL);
INSERT INTO frontier VALUES('contact','2026-03-04T13:00:00.000000Z','2026-03-04T13:00:00.000000Z',NULL);
CREATE TABLE reads (
    object TEXT NOT NULL, -- contact or company; '' for the lists
    purpose TEXT NOT NULL, -- changes, sweep, fill, lists, ages, progress
    part TEXT NOT NULL DEFAULT '', -- the number of a slice; the key of a field that is filled
    bounds TEXT NOT NULL, -- what the part is by `createdAt`, as JSON
    done INTEGER NOT NULL DEFAULT 0, -- whether it was read to its end
    as_of TEXT, -- our clock as of which changes will be complete
    position TEXT NOT NULL, -- where the walk goes on, as JSON: a hint
    PRIMARY KEY (object, purpose, part)
) STRICT, WITHOUT ROWID;
CREATE TABLE unshown_columns (
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    columns TEXT NOT NULL, -- their names, as a JSON array
    PRIMARY KEY (object_type, record_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE search_documents (
    docid INTEGER PRIMARY KEY, -- the rowid in contact_search or company_search
    is_company INTEGER NOT NULL, -- 0: of a contact, 1: of a company
    record_id TEXT NOT NULL -- the record's id
) STRICT;
INSERT INTO search_documents VALUES(1,0,'ct_1e15e67972f4');
INSERT INTO search_documents VALUES(2,0,'ct_1188e50e6b1e');
INSERT INTO search_documents VALUES(3,0,'ct_97cf65c3ef09');
INSERT INTO search_documents VALUES(4,0,'ct_2aa2e7e47aca');
INSERT INTO search_documents VALUES(5,0,'ct_b0e96899feb5');
INSERT INTO search_documents VALUES(6,0,'ct_a45c672ef6df');
INSERT INTO search_documents VALUES(7,1,'co_bd766a05068b');
INSERT INTO search_documents VALUES(8,1,'co_43bceaba8a76');
INSERT INTO search_documents VALUES(9,1,'co_372fe94f82a0');
PRAGMA writable_schema=ON;
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','contact_search','contact_search',0,'CREATE VIRTUAL TABLE contact_search USING fts5 (
    record_id UNINDEXED, -- the contact''s id, for joins; not searched
    name, -- full name, first and last name
    email, -- primary e-mail address
    company, -- company text
    position, -- job title
    notes, -- notes
    summaries, -- what the last session discussed, and what the contact asked for
    custom, -- every text custom field, one line each
    tokenize = ''unicode61 remove_diacritics 2''
)');
CREATE TABLE IF NOT EXISTS 'contact_search_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO contact_search_data VALUES(1,X'06000c120c0a303820');
INSERT INTO contact_search_data VALUES(10,X'000000000106060006010101020101030101040101050101060101');
INSERT INTO contact_search_data VALUES(137438953473,X'000002870230300306010304010601030401013101060103040101320606010304020339353705060107030104353338300606010705010438323835060601070302023539040601070302033636360106010703010439343834050601070502033632300206010704010562757965720206010402010363656f050601040202076f6e74616374300506010202080131040601020208013206060102020801330106010202080134030601020208013502060102020106656e657267790606010303020678616d706c650106010204010601020401060102040106010204010601020401060102040105666f6f64730306010303010601030301076775c3b072756e050601010201076962726168696d0206010102040601010201056b616d61750306010103020665737472656c01060103020203696c6f020601070201056c756d656e05080107020401056d61696c3005060102030501310406010203050132060601020305013301060102030501340306010203050135020601020303056e616765720406010403020601040301066f666669636504060104020206010402010570616d7061010601070205060103020108726f626f746963730106010303010773616666726f6e0306010302010601030203036c6573010601040302036f6e730206010703010276700106010402010777616e6a6972750306010102010879c4b16c64c4b17a0206010103040601010301067a65706879720406010702020801070204010ec3be6f72c3b06172646f747469720506010103010ad8b1d8b6d8a7db8cdb8c0406010103010ad981d8a7d8b7d985d9870406010102010ce596b6e6a5ade983a8e995b703060104020103eab98001060101030106ebafbceca4800106010102040d08080a0b0b090a0b0a0c0a0e08080808080d26110e130c0d0a0d0c08080808081112110f130a0a090e1413151111130a');
INSERT INTO contact_search_data VALUES(274877906945,X'0000016e053032393537050701070301043934383405070107050107616e6765626f74050e0105040106040c02077070726f766564050601050d0106627564676574050601050c010363656f050701040202076f6e746163743005070102020103646173050e0105030106030c0202656e050e0105090106090c0308706172746d656e74050601051201076578616d706c6505070102040103666f72050601050f010767656c6573656e050e0105050106050c020675c3b072756e05070101020103686174050e0105020106020c01056c6567616c05060105110204756d656e05090107020401056d61696c30050701020302056f63687465050e0105070106070c01057072656973050e01050a01060a0c0108737072656368656e050e01050b01060b0c01037468650506010510010475626572050e0105080106080c02026e64050e0105060106060c010777616974696e67050601050e010ec3be6f72c3b06172646f747469720507010103040b0b120e0d0a0e0e0d0f0e0a120d0e0c0c0c1010130a0f0d0e');
INSERT INTO contact_search_data VALUES(412316860417,X'000000ff02303003070103040108636f6e7461637434030701020201076578616d706c6503070102040105666f6f6473030701030301056b616d6175030701010301056d61696c340307010203010773616666726f6e0307010302010777616e6a69727503070101020102d8a7030801060a0b0306d8aad8b5d98403080106070b0312d984d8a5d984d983d8aad8b1d988d986d98a03080106060b0607a8d8b1d98ad8af03080106050b0203a8d98703080106080b0205b9d984d98903080106040b0104d984d8a703080106020b020987d8a7d8aad981d98a03080106090b02058ad8b1d8af03080106030b010ce596b6e6a5ade983a8e995b7030701040204080f0e0c0c0c0e0e0a0e1a0f0b0d0c110d');
INSERT INTO contact_search_data VALUES(549755813889,X'000001a20230320607010304010435333830060701070501043832383506070107030108617070726f766564060c01050d010711020175060c0105030107070106627564676574060c01050c0107100108636f6e7461637432060701020201026465060c0105050107090308706172746d656e74060c0105120107160106656e657267790607010303020678616d706c6506070102040103666f72060c01050f01071301076962726168696d0607010102020a6e746567726174696f6e060c01050b01070f0506726573736565060c01050801070c01016c060c01050a01070e02046567616c060c0105110107150203796f6e060c01050601070a01056d61696c32060701020303056e61676572060701040301066f66666963650607010402010570616d70610607010302030172060c01050901070d010a72656e636f6e74726565060c010502010706010573616c6f6e060c0105040107080103746865060c0105100107140203726573060c01050701070b010777616974696e67060c01050e010712010879c4b16c64c4b17a060701010301067a657068797206090107020404080b0b120b100f0c120d0d0d0e14100b0e0d0c0c0d0c0b140f0d0d110f');
INSERT INTO contact_search_data VALUES(687194767361,X'00000164023031010701030401043836363601070107030102616e010601050c020173010601050e0108636f6e7461637433010701020202027376010601050f01076578616d706c6501070102040304706f7274010601050d01076b65737472656c010701030201056d61696c330107010203010570616d706101070107020108726f626f746963730107010303010573616c65730107010403010276700107010402010577616e7473010601050b0102d8a7010e01050a01060a0b0306d8aad8b5d984010e0105070106070b0312d984d8a5d984d983d8aad8b1d988d986d98a010e0105060106060b0607a8d8b1d98ad8af010e0105050106050b0203a8d987010e0105080106080b0205b9d984d989010e0105040106040b0104d984d8a7010e0105020106020b020987d8a7d8aad981d98a010e0105090106090b02058ad8b1d8af010e0105030106030b0103eab98001070101030106ebafbceca480010701010204080b09080f090e0b0e0c0c0f0c090c0d111d120e100f14100a');
INSERT INTO contact_search_data VALUES(824633720833,X'0000008d05303936323002070107040105627579657202010108636f6e7461637435020701020201076578616d706c6502070102040107686172626f7572020601040201076962726168696d020701010201046b696c6f020701070201056d61696c35020701020303047374657202060104030104736f6e730207010703010879c4b16c64c4b17a0207010103040b090f0e0e0e0b0c0b0b');
CREATE TABLE IF NOT EXISTS 'contact_search_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO contact_search_idx VALUES(1,X'',2);
INSERT INTO contact_search_idx VALUES(2,X'',2);
INSERT INTO contact_search_idx VALUES(3,X'',2);
INSERT INTO contact_search_idx VALUES(4,X'',2);
INSERT INTO contact_search_idx VALUES(5,X'',2);
INSERT INTO contact_search_idx VALUES(6,X'',2);
CREATE TABLE IF NOT EXISTS 'contact_search_content'(id INTEGER PRIMARY KEY, c0, c1, c2, c3, c4, c5, c6, c7);
INSERT INTO contact_search_content VALUES(1,'ct_1e15e67972f4','민준 김','contact3@mail3.example','Kestrel Robotics 1','VP, Sales','لا يرد على البريد الإلكتروني، اتصل به هاتفيًا. Wants an export as CSV.',replace('لا يرد على البريد الإلكتروني، اتصل به هاتفيًا.\n["لا يرد على البريد الإلكتروني، اتصل به هاتفيًا."]','\n',char(10)),'Pampa 8666');
INSERT INTO contact_search_content VALUES(2,'ct_1188e50e6b1e','İbrahim Yıldız','contact5@mail5.example',NULL,'Harbour master',NULL,NULL,'Kilo & Sons 9620');
INSERT INTO contact_search_content VALUES(3,'ct_97cf65c3ef09','Wanjirũ Kamau','contact4@mail4.example','Saffron Foods 0','営業部長',NULL,replace('لا يرد على البريد الإلكتروني، اتصل به هاتفيًا.\n["لا يرد على البريد الإلكتروني، اتصل به هاتفيًا."]','\n',char(10)),NULL);
INSERT INTO contact_search_content VALUES(4,'ct_2aa2e7e47aca','فاطمه رضایی','contact1@mail1.example','Saffron Foods 0','Office Manager',NULL,NULL,'Zephyr 859');
INSERT INTO contact_search_content VALUES(5,'ct_b0e96899feb5','Guðrún Þórðardóttir','contact0@mail0.example',NULL,'CEO','Hat das Angebot gelesen und möchte über den Preis sprechen. Budget approved, waiting for the legal department.',replace('Hat das Angebot gelesen und möchte über den Preis sprechen.\n["Hat das Angebot gelesen und möchte über den Preis sprechen."]','\n',char(10)),replace('Lumen 2957\nLumen 9484','\n',char(10)));
INSERT INTO contact_search_content VALUES(6,'ct_a45c672ef6df','İbrahim Yıldız','contact2@mail2.example','Pampa Energy 2','Office Manager','Rencontrée au salon de Lyon, très intéressée par l''intégration. Budget approved, waiting for the legal department.',NULL,replace('Zephyr 8285\nZephyr 5380\nRencontrée au salon de Lyon, très intéressée par l''intégration. Budget approved, waiting for the legal department.','\n',char(10)));
CREATE TABLE IF NOT EXISTS 'contact_search_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO contact_search_docsize VALUES(1,X'00020303020e1202');
INSERT INTO contact_search_docsize VALUES(2,X'0002030002000003');
INSERT INTO contact_search_docsize VALUES(3,X'0002030301001200');
INSERT INTO contact_search_docsize VALUES(4,X'0002030302000002');
INSERT INTO contact_search_docsize VALUES(5,X'0002030001111404');
INSERT INTO contact_search_docsize VALUES(6,X'0002030302110015');
CREATE TABLE IF NOT EXISTS 'contact_search_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO contact_search_config VALUES('version',4);
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','company_search','company_search',0,'CREATE VIRTUAL TABLE company_search USING fts5 (
    record_id UNINDEXED, -- the company''s id, for joins; not searched
    name, -- name
    company, -- registered name and web site
    notes, -- notes
    custom, -- every text custom field, one line each
    tokenize = ''unicode61 remove_diacritics 2''
)');
CREATE TABLE IF NOT EXISTS 'company_search_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO company_search_data VALUES(1,X'030009132306');
INSERT INTO company_search_data VALUES(10,X'000000000103030003010101020101030101');
INSERT INTO company_search_data VALUES(137438953473,X'00000117023030080c010104010204010131070c01010401020402033131310706010403010132090c01010401020402033437340906010403020339313208060104030106656e65726779090c010103010203020678616d706c65070601020802060102090105666f6f6473080c0101030102030104676d6268070601020501056874747073070601020602060102060103696e63090601020501076b65737472656c07120101020102020104020809726f626f74696373310706010207020266740806010205010570616d706109120101020102020104020607656e657267793209060102080108726f626f74696373070c010103010203010773616666726f6e081201010201020201040201037777770906010207040b0b0a0b0a0a10120f0b110a141009120e1214');
INSERT INTO company_search_data VALUES(274877906945,X'0000012a023031070d01010401020402033131310707010403010161070801030409020466746572070601030602077070726f76656407060103130204736b656407060103090106627564676574070601030e010a636f6d70657469746f72070601030501076578616d706c6507070102080103666f72070801030a070203726f6d07060103030104676d6268070701020501056874747073070701020601026973070601031201076b65737472656c07130101020102020104020809726f626f7469637331070701020701056d6f766564070601030201066f75746167650706010308010771756172746572070601031103036f7465070601030c0108726f626f74696373070d0101030102030103746865070601030d040269720706010307030269730706010310040b0a090b0e0b0d110e0b0a0b0c0914100c0d0e0a120a09');
INSERT INTO company_search_data VALUES(412316860417,X'0000010b023032090d0101040102040203343734090701040301016109080103070502026e64090601030901096261636b736c617368090601030b010563616c6c73090601030f0106656e65726779090d010103010203020678616d706c6509070102090105687474707309070102060102696e090801030c060301630907010205020174090601030d01046c696e6509080103020401076d6f726e696e67090601031201036f6e650906010303010570616d706109130101020102020104020607656e657267793209070102080206726566657273090601030e010374616209060103080202686509060103110202776f09060103050104776974680906010306020277770907010207040b0a0909100c100d0c0a08080c0e0a120e0d0a09090b');
CREATE TABLE IF NOT EXISTS 'company_search_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO company_search_idx VALUES(1,X'',2);
INSERT INTO company_search_idx VALUES(2,X'',2);
INSERT INTO company_search_idx VALUES(3,X'',2);
CREATE TABLE IF NOT EXISTS 'company_search_content'(id INTEGER PRIMARY KEY, c0, c1, c2, c3, c4);
INSERT INTO company_search_content VALUES(7,'co_bd766a05068b','Kestrel Robotics 1',replace('Kestrel Robotics 1 GmbH\nhttps://kestrelrobotics1.example/','\n',char(10)),'Moved from a competitor after their outage 😬. Asked for a quote; the budget for this quarter is approved.','Kestrel 1111');
INSERT INTO company_search_content VALUES(8,'co_43bceaba8a76','Saffron Foods 0','Saffron Foods 0 Kft.',NULL,'Saffron 2912');
INSERT INTO company_search_content VALUES(9,'co_372fe94f82a0','Pampa Energy 2',replace('Pampa Energy 2 Inc.\nhttps://www.pampaenergy2.example/','\n',char(10)),replace('Line one\nline two	with a tab and a backslash \ in it. Prefers calls in the morning.','\n',char(10)),'Pampa 2474');
CREATE TABLE IF NOT EXISTS 'company_search_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO company_search_docsize VALUES(7,X'0003071202');
INSERT INTO company_search_docsize VALUES(8,X'0003040002');
INSERT INTO company_search_docsize VALUES(9,X'0003081102');
CREATE TABLE IF NOT EXISTS 'company_search_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO company_search_config VALUES('version',4);
CREATE TABLE ended_values (
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    column_name TEXT NOT NULL,
    value TEXT NOT NULL, -- as JSON
    ended_by INTEGER NOT NULL, -- the `seq` of the entry of `changes` that ended it
    PRIMARY KEY (object_type, record_id, column_name)
) STRICT, WITHOUT ROWID;
CREATE TABLE changed_records (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- grows with every change of a record
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    erase INTEGER NOT NULL DEFAULT 0, -- its entries of changes up to this one were erased; 0 for none
    UNIQUE (object_type, record_id)
) STRICT;
CREATE TABLE filled_records (
    object_type TEXT NOT NULL, -- contact or company
    id TEXT NOT NULL,
    PRIMARY KEY (object_type, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued', -- queued, held, sending, applied, conflict, rejected, dropped or replaced
    source TEXT NOT NULL, -- sql, edit, undo or assistant
    fields TEXT NOT NULL, -- JSON, {column: [before, after]} as the mirror's columns have them; an unknown before is an object
    base_etag TEXT, -- the version of the record that the edit was made on
    body TEXT, -- the request's body, byte for byte; set before it is first sent
    if_match TEXT, -- the version that the request replaces; set with the body
    idempotency_key TEXT, -- set with the body; a retry repeats all three
    attempts INTEGER NOT NULL DEFAULT 0,
    first_sent_at TEXT, -- UTC; when this body was first sent
    last_sent_at TEXT, -- UTC
    status INTEGER, -- the HTTP status of the last answer; NULL where none came
    answer TEXT, -- what the service said, or why the edit was refused here, JSON
    theirs TEXT, -- in a conflict, what the edited columns hold at the service, JSON, {column: value}
    merged_into INTEGER REFERENCES outbox (id), -- the edit of the same record that carries this one along
    queued_at TEXT NOT NULL, -- UTC
    finished_at TEXT, -- UTC; when it was applied, rejected, dropped or replaced
    tried_at TEXT, -- when a request with it was first sent, whatever came of it; UTC by a clock that nobody sets
    released_at TEXT, -- UTC; when a person let it pass `write_back.max_edits`
    undoes INTEGER REFERENCES outbox (id) -- the applied edit that it takes back, the last one of several
) STRICT;
CREATE TABLE outbox_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    outbox_id INTEGER NOT NULL REFERENCES outbox (id),
    at TEXT NOT NULL, -- UTC
    from_state TEXT, -- NULL where the edit was made
    to_state TEXT NOT NULL,
    who TEXT, -- a user of the operating system, sql for a shell, mcp for an assistant; NULL where crm-mirror did it by itself
    why TEXT NOT NULL -- a sentence
) STRICT;
CREATE TABLE outbox_delays (
    object_type TEXT NOT NULL, -- contact or company
    scope TEXT NOT NULL, -- record, object, missed (in its place, of records that seem to be removed) or custom_fields
    record_id TEXT NOT NULL, -- the record; empty where more than one waits
    requests INTEGER NOT NULL, -- requests since an edit last came to its end
    recent INTEGER NOT NULL, -- those of them since the last pause of an hour
    last_at TEXT NOT NULL, -- UTC; when the last of them was made
    not_before TEXT NOT NULL, -- UTC; when the next request may be made
    api_key TEXT, -- the fingerprint of the key that was refused; another key is tried at once
    PRIMARY KEY (object_type, scope, record_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE outbox_values (
    column_name TEXT PRIMARY KEY,
    change TEXT NOT NULL, -- JSON, [before, after]
    unproven INTEGER NOT NULL DEFAULT 0, -- 1 if the record's version does not prove the value before
    effect INTEGER NOT NULL DEFAULT 1 -- -1: not decided yet, 0: changes nothing, 1: becomes part of the edit, 2: takes back an edit that was never sent
) STRICT, WITHOUT ROWID;
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('sync_runs',2);
INSERT INTO sqlite_sequence VALUES('changes',1);
CREATE INDEX removed_records_by_time ON removed_records (object_type, removed_at);
CREATE VIEW select_labels (
    object_type, -- contact or company
    field_key, -- the definition's key
    column_name, -- the column that holds the values
    position, -- from 0, in the service's order
    value, -- the public value key, as it stands in records
    label -- display text
) AS
SELECT d.object_type, d.key, d.column_name, o.position, o.value, o.label
FROM custom_field_definitions AS d JOIN custom_field_options AS o ON o.definition_id = d.id
;
CREATE INDEX custom_field_definitions_by_column ON custom_field_definitions (object_type, column_name);
CREATE VIEW change_fields (
    seq, -- the number of the change
    seen_at, -- when the mirror saw it, UTC
    object_type, -- contact or company
    record_id, -- the record's id
    column_name, -- the column of the _full view
    old_value, -- what it held before
    new_value, -- what it holds since
    derived -- 1 for etag, updated_at and the _num companions of decimals, else 0
) AS
SELECT c.seq, c.seen_at, c.object_type, c.record_id, f.key,
    json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'),
    CASE
        WHEN f.key IN ('etag', 'updated_at') THEN 1
        WHEN substr(f.key, -4) <> '_num' THEN 0
        WHEN substr(f.key, 1, 3) <> 'cf_' THEN 1
        ELSE NOT EXISTS (SELECT 1 FROM custom_field_definitions AS d
                         WHERE d.object_type = c.object_type AND d.column_name = f.key)
    END
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE c.kind <> 'schema'
;
CREATE INDEX outbox_open ON outbox (object_type, record_id, id) WHERE finished_at IS NULL;
CREATE INDEX outbox_new ON outbox (state, id) WHERE finished_at IS NULL AND tried_at IS NULL;
CREATE INDEX outbox_tried ON outbox (tried_at) WHERE tried_at IS NOT NULL;
CREATE INDEX outbox_ended ON outbox (state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX outbox_merged ON outbox (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX outbox_undoes ON outbox (undoes) WHERE undoes IS NOT NULL;
CREATE INDEX outbox_events_of ON outbox_events (outbox_id);
CREATE VIEW pending_edits (
    edit_id, -- the edit's id in outbox
    object_type, -- contact or company
    record_id, -- the record's id
    name, -- what the record is called
    column_name, -- the column that was edited
    before, -- what the column held when the edit was made
    before_known, -- 0 if that was unknown: then it replaces nothing but an empty value
    after, -- what it is to hold
    theirs, -- in a conflict, what it holds at the service
    state, -- queued, held, sending or conflict
    since -- when the edit was made, UTC
) AS
SELECT o.id, o.object_type, o.record_id, coalesce(c.name, k.name), f.key,
    CASE json_type(f.value, '$[0]') WHEN 'object' THEN json_extract(f.value, '$[0].unfit') ELSE json_extract(f.value, '$[0]') END,
    json_type(f.value, '$[0].unknown') IS NULL, json_extract(f.value, '$[1]'),
    coalesce(json_extract(o.theirs, '$.' || f.key || '.unfit'), json_extract(o.theirs, '$.' || f.key)),
    o.state, o.queued_at
FROM outbox AS o CROSS JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{}' END) AS f
LEFT JOIN contacts AS c ON o.object_type = 'contact' AND c.id = o.record_id
LEFT JOIN companies AS k ON o.object_type = 'company' AND k.id = o.record_id
WHERE o.finished_at IS NULL
;
CREATE TRIGGER outbox_refuse_insert BEFORE INSERT ON outbox WHEN NEW.fields IS NOT NULL AND NOT EXISTS (SELECT 1 FROM outbox_values) BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'outbox is written by crm-mirror alone: contacts_full and companies_full take edits, crm-mirror outbox decides on them'); END
;
CREATE TRIGGER outbox_refuse_update BEFORE UPDATE ON outbox WHEN NOT EXISTS (SELECT 1 FROM outbox_values) BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'outbox is written by crm-mirror alone: contacts_full and companies_full take edits, crm-mirror outbox decides on them'); END
;
CREATE TRIGGER outbox_events_refuse_insert BEFORE INSERT ON outbox_events WHEN NOT EXISTS (SELECT 1 FROM outbox_values) BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'outbox_events is written by crm-mirror alone: contacts_full and companies_full take edits, crm-mirror outbox decides on them'); END
;
CREATE TRIGGER outbox_values_refuse_insert BEFORE INSERT ON outbox_values WHEN NEW.effect <> -1 BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'outbox_values is written by crm-mirror alone: contacts_full and companies_full take edits, crm-mirror outbox decides on them'); END
;
CREATE TRIGGER outbox_refuse_delete BEFORE DELETE ON outbox BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'outbox is written by crm-mirror alone: contacts_full and companies_full take edits, crm-mirror outbox decides on them'); END
;
CREATE TRIGGER outbox_events_refuse_update BEFORE UPDATE ON outbox_events BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'outbox_events is written by crm-mirror alone: contacts_full and companies_full take edits, crm-mirror outbox decides on them'); END
;
CREATE TRIGGER outbox_events_refuse_delete BEFORE DELETE ON outbox_events BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'outbox_events is written by crm-mirror alone: contacts_full and companies_full take edits, crm-mirror outbox decides on them'); END
;
CREATE TRIGGER contacts_refuse_insert BEFORE INSERT ON contacts BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'contacts is written by crm-mirror alone: change contacts_full instead'); END
;
CREATE TRIGGER contacts_refuse_update BEFORE UPDATE ON contacts BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'contacts is written by crm-mirror alone: change contacts_full instead'); END
;
CREATE TRIGGER contacts_refuse_delete BEFORE DELETE ON contacts BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'contacts is written by crm-mirror alone: change contacts_full instead'); END
;
CREATE TRIGGER contact_details_refuse_insert BEFORE INSERT ON contact_details BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'contact_details is written by crm-mirror alone: change contacts_full instead'); END
;
CREATE TRIGGER contact_details_refuse_update BEFORE UPDATE ON contact_details BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'contact_details is written by crm-mirror alone: change contacts_full instead'); END
;
CREATE TRIGGER contact_details_refuse_delete BEFORE DELETE ON contact_details BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'contact_details is written by crm-mirror alone: change contacts_full instead'); END
;
CREATE TRIGGER companies_refuse_insert BEFORE INSERT ON companies BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'companies is written by crm-mirror alone: change companies_full instead'); END
;
CREATE TRIGGER companies_refuse_update BEFORE UPDATE ON companies BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'companies is written by crm-mirror alone: change companies_full instead'); END
;
CREATE TRIGGER companies_refuse_delete BEFORE DELETE ON companies BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'companies is written by crm-mirror alone: change companies_full instead'); END
;
CREATE TRIGGER company_details_refuse_insert BEFORE INSERT ON company_details BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'company_details is written by crm-mirror alone: change companies_full instead'); END
;
CREATE TRIGGER company_details_refuse_update BEFORE UPDATE ON company_details BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'company_details is written by crm-mirror alone: change companies_full instead'); END
;
CREATE TRIGGER company_details_refuse_delete BEFORE DELETE ON company_details BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'company_details is written by crm-mirror alone: change companies_full instead'); END
;
CREATE TRIGGER team_members_refuse_insert BEFORE INSERT ON team_members BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'team_members is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER team_members_refuse_update BEFORE UPDATE ON team_members BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'team_members is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER team_members_refuse_delete BEFORE DELETE ON team_members BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'team_members is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_field_definitions_refuse_insert BEFORE INSERT ON custom_field_definitions BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_field_definitions is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_field_definitions_refuse_update BEFORE UPDATE ON custom_field_definitions BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_field_definitions is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_field_definitions_refuse_delete BEFORE DELETE ON custom_field_definitions BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_field_definitions is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_field_options_refuse_insert BEFORE INSERT ON custom_field_options BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_field_options is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_field_options_refuse_update BEFORE UPDATE ON custom_field_options BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_field_options is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_field_options_refuse_delete BEFORE DELETE ON custom_field_options BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_field_options is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_multi_values_refuse_insert BEFORE INSERT ON custom_multi_values BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_multi_values is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_multi_values_refuse_update BEFORE UPDATE ON custom_multi_values BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_multi_values is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER custom_multi_values_refuse_delete BEFORE DELETE ON custom_multi_values BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'custom_multi_values is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER removed_records_refuse_insert BEFORE INSERT ON removed_records BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'removed_records is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER removed_records_refuse_update BEFORE UPDATE ON removed_records BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'removed_records is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER removed_records_refuse_delete BEFORE DELETE ON removed_records BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'removed_records is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER changes_refuse_insert BEFORE INSERT ON changes BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'changes is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER changes_refuse_update BEFORE UPDATE ON changes BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'changes is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE TRIGGER changes_refuse_delete BEFORE DELETE ON changes BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'changes is written by crm-mirror alone: contacts_full and companies_full take edits'); END
;
CREATE VIEW contacts_full AS SELECT r.id AS id, r.name AS name, r.first_name AS first_name, r.last_name AS last_name, r.email AS email, r.mobile AS mobile, coalesce(r.position, NULL) AS position, r.company AS company, r.company_id AS company_id, c.name AS company_name, r.owner_id AS owner_id, nullif(trim(coalesce(o.first_name, '') || ' ' || coalesce(o.last_name, '')), '') AS owner_name, r.qualification AS qualification, r.created_at AS created_at, r.updated_at AS updated_at, r.intent_type AS intent_type, r.intent_level AS intent_level, r.last_interaction_at AS last_interaction_at, r.enrichment_status AS enrichment_status, r.enrichment_at AS enrichment_at, r.etag AS etag, r.location_country AS location_country, r.location_region AS location_region, r.location_city AS location_city, coalesce(d.industry, NULL) AS industry, coalesce(d.language, NULL) AS language, coalesce(d.timezone, NULL) AS timezone, d.linkedin_url AS linkedin_url, d.record_source AS record_source, d.origin_channel AS origin_channel, coalesce(d.notes, NULL) AS notes, d.notes_at AS notes_at, d.score AS score, d.reasoning AS reasoning, d.qualification_confidence AS qualification_confidence, d.qualification_confidence_num AS qualification_confidence_num, d.qualified_at AS qualified_at, d.intent_reason AS intent_reason, d.intent_inferred_at AS intent_inferred_at, d.last_message_sent_at AS last_message_sent_at, d.last_message_received_at AS last_message_received_at, d.session_summary_discussed AS session_summary_discussed, d.session_summary_requests AS session_summary_requests, d.session_summary_at AS session_summary_at, d.do_not_contact AS do_not_contact, d.do_not_contact_at AS do_not_contact_at, d.do_not_contact_reason AS do_not_contact_reason, d.email_marketing_consent_status AS email_marketing_consent_status, d.email_marketing_consent_updated_at AS email_marketing_consent_updated_at, d.sms_marketing_consent_status AS sms_marketing_consent_status, d.sms_marketing_consent_updated_at AS sms_marketing_consent_updated_at, d.whatsapp_marketing_consent_status AS whatsapp_marketing_consent_status, d.whatsapp_marketing_consent_updated_at AS whatsapp_marketing_consent_updated_at, d.phone_marketing_consent_status AS phone_marketing_consent_status, d.phone_marketing_consent_updated_at AS phone_marketing_consent_updated_at, d.consent_updated_at AS consent_updated_at, d.contactable AS contactable, d.contactable_channels AS contactable_channels, d.contactability_updated_at AS contactability_updated_at, d.email_reachability_status AS email_reachability_status, d.web_chat_reachability_status AS web_chat_reachability_status, d.whatsapp_reachability_status AS whatsapp_reachability_status, d.whatsapp_service_window_expires_at AS whatsapp_service_window_expires_at, d.phone_reachability_status AS phone_reachability_status, coalesce(r.cf_nickname, NULL) AS cf_nickname, coalesce(r.cf_customer_ref, NULL) AS cf_customer_ref, r.cf_children AS cf_children, coalesce(r.cf_lifetime_value, NULL) AS cf_lifetime_value, r.cf_lifetime_value_num AS cf_lifetime_value_num, r.cf_newsletter AS cf_newsletter, r.cf_birthday AS cf_birthday, r.cf_next_call AS cf_next_call, r.cf_tier AS cf_tier, r.cf_topics AS cf_topics, coalesce(r.cf__berweisung, NULL) AS cf__berweisung, r.cf__berweisung_num AS cf__berweisung_num, coalesce(r.cf_tier_2, NULL) AS cf_tier_2, coalesce(d.cf_background, NULL) AS cf_background, r.extra AS extra, d.extra AS detail_extra, r.synced_at AS synced_at, d.fetched_at AS fetched_at, (d.contact_id IS NOT NULL AND coalesce(d.etag = r.etag, d.etag IS NULL AND r.etag IS NULL)) AS details_current FROM contacts AS r LEFT JOIN contact_details AS d ON d.contact_id = r.id LEFT JOIN team_members AS o ON o.id = r.owner_id LEFT JOIN companies AS c ON c.id = r.company_id;
CREATE VIEW contact_history (
    id, -- the record's id
    column_name, -- the column of the _full view
    value, -- what it held
    valid_from, -- since when, UTC; NULL: since before the history
    valid_to -- until when, UTC; NULL: still
) AS
SELECT c.record_id, coalesce(f.key, NULL), json_extract(f.value, '$[1]'), CAST(c.seen_at AS TEXT),
    CAST((SELECT e.seen_at FROM changes AS e WHERE e.object_type = 'contact' AND e.record_id IN (c.record_id, '')
     AND e.seq > c.seq AND (e.kind <> 'schema' AND (e.kind IN ('insert', 'remove') OR json_type(e.fields, '$."' || f.key || '"') IS NOT NULL) OR e.kind = 'schema' AND json_extract(e.fields, '$.column') = f.key AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed')) ORDER BY e.seq LIMIT 1) AS TEXT)
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE coalesce(c.object_type, '') = 'contact' AND c.kind IN ('insert', 'update')
UNION ALL
SELECT c.record_id, coalesce(f.key, NULL), json_extract(f.value, '$[0]'), CAST(NULL AS TEXT),
    CAST(coalesce((SELECT e.seen_at FROM changes AS e WHERE e.object_type = 'contact' AND e.record_id = '' AND e.kind = 'schema' AND json_extract(e.fields, '$.column') = f.key AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed') AND e.seq < c.seq ORDER BY e.seq LIMIT 1), c.seen_at) AS TEXT)
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE coalesce(c.object_type, '') = 'contact' AND c.kind IN ('update', 'remove') AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = 'contact' AND e.record_id = c.record_id AND e.seq < c.seq
    AND (e.kind IN ('insert', 'remove') OR json_type(e.fields, '$."' || f.key || '"') IS NOT NULL))
UNION ALL
SELECT r.id, coalesce(f.key, NULL), coalesce(f.value, NULL), CAST(NULL AS TEXT), CAST((SELECT e.seen_at FROM changes AS e WHERE e.object_type = 'contact' AND e.record_id = '' AND e.kind = 'schema' AND json_extract(e.fields, '$.column') = f.key AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed') AND f.key IN ('') ORDER BY e.seq DESC LIMIT 1) AS TEXT)
FROM contacts AS r LEFT JOIN contact_details AS d ON d.contact_id = r.id
CROSS JOIN json_each(json_array(json_object('name', r.name, 'first_name', r.first_name, 'last_name', r.last_name, 'email', r.email, 'mobile', r.mobile, 'position', r.position, 'company', r.company, 'company_id', r.company_id, 'owner_id', r.owner_id, 'qualification', r.qualification, 'created_at', r.created_at, 'updated_at', r.updated_at, 'intent_type', r.intent_type, 'intent_level', r.intent_level, 'last_interaction_at', r.last_interaction_at, 'enrichment_status', r.enrichment_status, 'enrichment_at', r.enrichment_at, 'etag', r.etag, 'location_country', r.location_country, 'location_region', r.location_region, 'location_city', r.location_city, 'industry', d.industry, 'language', d.language, 'timezone', d.timezone, 'linkedin_url', d.linkedin_url), json_object('record_source', d.record_source, 'origin_channel', d.origin_channel, 'notes', d.notes, 'notes_at', d.notes_at, 'score', CASE WHEN typeof(d.score) = 'real' AND abs(d.score) < 9e999 THEN json(printf('%!.17g', d.score)) ELSE d.score END, 'reasoning', d.reasoning, 'qualification_confidence', d.qualification_confidence, 'qualification_confidence_num', CASE WHEN typeof(d.qualification_confidence_num) = 'real' AND abs(d.qualification_confidence_num) < 9e999 THEN json(printf('%!.17g', d.qualification_confidence_num)) ELSE d.qualification_confidence_num END, 'qualified_at', d.qualified_at, 'intent_reason', d.intent_reason, 'intent_inferred_at', d.intent_inferred_at, 'last_message_sent_at', d.last_message_sent_at, 'last_message_received_at', d.last_message_received_at, 'session_summary_discussed', d.session_summary_discussed, 'session_summary_requests', d.session_summary_requests, 'session_summary_at', d.session_summary_at, 'do_not_contact', d.do_not_contact, 'do_not_contact_at', d.do_not_contact_at, 'do_not_contact_reason', d.do_not_contact_reason, 'email_marketing_consent_status', d.email_marketing_consent_status, 'email_marketing_consent_updated_at', d.email_marketing_consent_updated_at, 'sms_marketing_consent_status', d.sms_marketing_consent_status, 'sms_marketing_consent_updated_at', d.sms_marketing_consent_updated_at, 'whatsapp_marketing_consent_status', d.whatsapp_marketing_consent_status, 'whatsapp_marketing_consent_updated_at', d.whatsapp_marketing_consent_updated_at), json_object('phone_marketing_consent_status', d.phone_marketing_consent_status, 'phone_marketing_consent_updated_at', d.phone_marketing_consent_updated_at, 'consent_updated_at', d.consent_updated_at, 'contactable', d.contactable, 'contactable_channels', d.contactable_channels, 'contactability_updated_at', d.contactability_updated_at, 'email_reachability_status', d.email_reachability_status, 'web_chat_reachability_status', d.web_chat_reachability_status, 'whatsapp_reachability_status', d.whatsapp_reachability_status, 'whatsapp_service_window_expires_at', d.whatsapp_service_window_expires_at, 'phone_reachability_status', d.phone_reachability_status, 'cf_nickname', r.cf_nickname, 'cf_customer_ref', r.cf_customer_ref, 'cf_children', r.cf_children, 'cf_lifetime_value', r.cf_lifetime_value, 'cf_lifetime_value_num', CASE WHEN typeof(r.cf_lifetime_value_num) = 'real' AND abs(r.cf_lifetime_value_num) < 9e999 THEN json(printf('%!.17g', r.cf_lifetime_value_num)) ELSE r.cf_lifetime_value_num END, 'cf_newsletter', r.cf_newsletter, 'cf_birthday', r.cf_birthday, 'cf_next_call', r.cf_next_call, 'cf_tier', r.cf_tier, 'cf_topics', r.cf_topics, 'cf__berweisung', r.cf__berweisung, 'cf__berweisung_num', CASE WHEN typeof(r.cf__berweisung_num) = 'real' AND abs(r.cf__berweisung_num) < 9e999 THEN json(printf('%!.17g', r.cf__berweisung_num)) ELSE r.cf__berweisung_num END, 'cf_tier_2', r.cf_tier_2, 'cf_background', d.cf_background), json_object('extra', r.extra, 'detail_extra', d.extra))) AS p CROSS JOIN json_each(p.value) AS f
WHERE f.value IS NOT NULL AND (NOT f.key IN ('') OR (SELECT e.seen_at FROM changes AS e WHERE e.object_type = 'contact' AND e.record_id = '' AND e.kind = 'schema' AND json_extract(e.fields, '$.column') = f.key AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed') AND f.key IN ('') ORDER BY e.seq DESC LIMIT 1) IS NOT NULL) AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = 'contact' AND e.record_id = r.id AND (e.kind IN ('insert', 'remove') OR json_type(e.fields, '$."' || f.key || '"') IS NOT NULL))
UNION ALL
SELECT f.record_id, coalesce(f.key, NULL), json_extract(f.value, '$'), CAST(NULL AS TEXT),
    CAST((SELECT e.seen_at FROM changes AS e WHERE e.seq = f.ended_by) AS TEXT)
FROM (SELECT record_id, column_name AS key, value, ended_by FROM ended_values WHERE object_type = 'contact') AS f
WHERE NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = 'contact' AND e.record_id = f.record_id AND (e.kind IN ('insert', 'remove') OR json_type(e.fields, '$."' || f.key || '"') IS NOT NULL))
;
CREATE VIEW companies_full AS SELECT r.id AS id, r.name AS name, r.registered_name AS registered_name, coalesce(r.industry, NULL) AS industry, r.sub_industry AS sub_industry, r.employee_count AS employee_count, r.revenue AS revenue, r.revenue_num AS revenue_num, r.hq_country AS hq_country, r.year_founded AS year_founded, r.owner_id AS owner_id, nullif(trim(coalesce(o.first_name, '') || ' ' || coalesce(o.last_name, '')), '') AS owner_name, r.logo AS logo, r.enrichment_at AS enrichment_at, r.enrichment_status AS enrichment_status, r.last_message_sent_at AS last_message_sent_at, r.last_message_received_at AS last_message_received_at, r.last_interaction_at AS last_interaction_at, r.created_at AS created_at, r.updated_at AS updated_at, r.customer_fit_score AS customer_fit_score, r.etag AS etag, r.website_url AS website_url, d.notes AS notes, d.notes_at AS notes_at, d.customer_fit_score_reason AS customer_fit_score_reason, coalesce(r.cf_account_code, NULL) AS cf_account_code, r.cf_offices AS cf_offices, coalesce(r.cf_credit_limit, NULL) AS cf_credit_limit, r.cf_credit_limit_num AS cf_credit_limit_num, r.cf_public AS cf_public, r.cf_contract_end AS cf_contract_end, r.cf_last_audit AS cf_last_audit, r.cf_region AS cf_region, r.cf_markets AS cf_markets, coalesce(d.cf_strategy, NULL) AS cf_strategy, r.extra AS extra, d.extra AS detail_extra, r.synced_at AS synced_at, d.fetched_at AS fetched_at, (d.company_id IS NOT NULL AND coalesce(d.etag = r.etag, d.etag IS NULL AND r.etag IS NULL)) AS details_current FROM companies AS r LEFT JOIN company_details AS d ON d.company_id = r.id LEFT JOIN team_members AS o ON o.id = r.owner_id;
CREATE VIEW company_history (
    id, -- the record's id
    column_name, -- the column of the _full view
    value, -- what it held
    valid_from, -- since when, UTC; NULL: since before the history
    valid_to -- until when, UTC; NULL: still
) AS
SELECT c.record_id, coalesce(f.key, NULL), json_extract(f.value, '$[1]'), CAST(c.seen_at AS TEXT),
    CAST((SELECT e.seen_at FROM changes AS e WHERE e.object_type = 'company' AND e.record_id IN (c.record_id, '')
     AND e.seq > c.seq AND (e.kind <> 'schema' AND (e.kind IN ('insert', 'remove') OR json_type(e.fields, '$."' || f.key || '"') IS NOT NULL) OR e.kind = 'schema' AND json_extract(e.fields, '$.column') = f.key AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed')) ORDER BY e.seq LIMIT 1) AS TEXT)
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE coalesce(c.object_type, '') = 'company' AND c.kind IN ('insert', 'update')
UNION ALL
SELECT c.record_id, coalesce(f.key, NULL), json_extract(f.value, '$[0]'), CAST(NULL AS TEXT),
    CAST(coalesce((SELECT e.seen_at FROM changes AS e WHERE e.object_type = 'company' AND e.record_id = '' AND e.kind = 'schema' AND json_extract(e.fields, '$.column') = f.key AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed') AND e.seq < c.seq ORDER BY e.seq LIMIT 1), c.seen_at) AS TEXT)
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE coalesce(c.object_type, '') = 'company' AND c.kind IN ('update', 'remove') AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = 'company' AND e.record_id = c.record_id AND e.seq < c.seq
    AND (e.kind IN ('insert', 'remove') OR json_type(e.fields, '$."' || f.key || '"') IS NOT NULL))
UNION ALL
SELECT r.id, coalesce(f.key, NULL), coalesce(f.value, NULL), CAST(NULL AS TEXT), CAST((SELECT e.seen_at FROM changes AS e WHERE e.object_type = 'company' AND e.record_id = '' AND e.kind = 'schema' AND json_extract(e.fields, '$.column') = f.key AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed') AND f.key IN ('') ORDER BY e.seq DESC LIMIT 1) AS TEXT)
FROM companies AS r LEFT JOIN company_details AS d ON d.company_id = r.id
CROSS JOIN json_each(json_array(json_object('name', r.name, 'registered_name', r.registered_name, 'industry', r.industry, 'sub_industry', r.sub_industry, 'employee_count', r.employee_count, 'revenue', r.revenue, 'revenue_num', CASE WHEN typeof(r.revenue_num) = 'real' AND abs(r.revenue_num) < 9e999 THEN json(printf('%!.17g', r.revenue_num)) ELSE r.revenue_num END, 'hq_country', r.hq_country, 'year_founded', r.year_founded, 'owner_id', r.owner_id, 'logo', r.logo, 'enrichment_at', r.enrichment_at, 'enrichment_status', r.enrichment_status, 'last_message_sent_at', r.last_message_sent_at, 'last_message_received_at', r.last_message_received_at, 'last_interaction_at', r.last_interaction_at, 'created_at', r.created_at, 'updated_at', r.updated_at, 'customer_fit_score', CASE WHEN typeof(r.customer_fit_score) = 'real' AND abs(r.customer_fit_score) < 9e999 THEN json(printf('%!.17g', r.customer_fit_score)) ELSE r.customer_fit_score END, 'etag', r.etag, 'website_url', r.website_url, 'notes', d.notes, 'notes_at', d.notes_at, 'customer_fit_score_reason', d.customer_fit_score_reason, 'cf_account_code', r.cf_account_code), json_object('cf_offices', r.cf_offices, 'cf_credit_limit', r.cf_credit_limit, 'cf_credit_limit_num', CASE WHEN typeof(r.cf_credit_limit_num) = 'real' AND abs(r.cf_credit_limit_num) < 9e999 THEN json(printf('%!.17g', r.cf_credit_limit_num)) ELSE r.cf_credit_limit_num END, 'cf_public', r.cf_public, 'cf_contract_end', r.cf_contract_end, 'cf_last_audit', r.cf_last_audit, 'cf_region', r.cf_region, 'cf_markets', r.cf_markets, 'cf_strategy', d.cf_strategy, 'extra', r.extra, 'detail_extra', d.extra))) AS p CROSS JOIN json_each(p.value) AS f
WHERE f.value IS NOT NULL AND (NOT f.key IN ('') OR (SELECT e.seen_at FROM changes AS e WHERE e.object_type = 'company' AND e.record_id = '' AND e.kind = 'schema' AND json_extract(e.fields, '$.column') = f.key AND json_extract(e.fields, '$.op') IN ('archived', 'retyped', 'removed') AND f.key IN ('') ORDER BY e.seq DESC LIMIT 1) IS NOT NULL) AND NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = 'company' AND e.record_id = r.id AND (e.kind IN ('insert', 'remove') OR json_type(e.fields, '$."' || f.key || '"') IS NOT NULL))
UNION ALL
SELECT f.record_id, coalesce(f.key, NULL), json_extract(f.value, '$'), CAST(NULL AS TEXT),
    CAST((SELECT e.seen_at FROM changes AS e WHERE e.seq = f.ended_by) AS TEXT)
FROM (SELECT record_id, column_name AS key, value, ended_by FROM ended_values WHERE object_type = 'company') AS f
WHERE NOT EXISTS (
    SELECT 1 FROM changes AS e WHERE e.object_type = 'company' AND e.record_id = f.record_id AND (e.kind IN ('insert', 'remove') OR json_type(e.fields, '$."' || f.key || '"') IS NOT NULL))
;
CREATE TRIGGER contacts_full_update INSTEAD OF UPDATE ON contacts_full BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'writing back is off: set enabled = true below [write_back] in the configuration of crm-mirror, and run crm-mirror sync'); END
;
CREATE TRIGGER companies_full_update INSTEAD OF UPDATE ON companies_full BEGIN -- of crm-mirror
SELECT RAISE(ABORT, 'writing back is off: set enabled = true below [write_back] in the configuration of crm-mirror, and run crm-mirror sync'); END
;
CREATE TRIGGER outbox_leave_out_empty BEFORE INSERT ON outbox WHEN NEW.fields IS NULL BEGIN -- of crm-mirror
SELECT RAISE(IGNORE); END
;
CREATE TRIGGER outbox_begin_history AFTER INSERT ON outbox BEGIN -- of crm-mirror
INSERT INTO outbox_events (outbox_id, at, to_state, who, why) VALUES (NEW.id, NEW.queued_at, NEW.state, 'sql', 'changed with SQL'); END
;
CREATE TRIGGER outbox_merge AFTER UPDATE OF source ON outbox BEGIN -- of crm-mirror
UPDATE outbox_values SET effect = CASE
  WHEN NOT EXISTS (SELECT 1 FROM outbox AS o CROSS JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{}' END) AS f
    WHERE o.object_type = NEW.object_type AND o.record_id = NEW.record_id AND o.finished_at IS NULL AND o.state <> 'conflict'
      AND f.key = outbox_values.column_name) THEN effect
  WHEN (SELECT o.state <> 'held' AND json_extract(f.value, '$[1]') IS json_extract(change, '$[1]') FROM outbox AS o CROSS JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{}' END) AS f
    WHERE o.object_type = NEW.object_type AND o.record_id = NEW.record_id AND o.finished_at IS NULL AND o.state <> 'conflict'
      AND f.key = outbox_values.column_name ORDER BY o.id DESC LIMIT 1) THEN 0
  WHEN json_extract(change, '$[1]') IS json_extract(change, '$[0]')
    AND NOT EXISTS (SELECT 1 FROM outbox AS o CROSS JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{}' END) AS f
    WHERE o.object_type = NEW.object_type AND o.record_id = NEW.record_id AND o.finished_at IS NULL AND o.state <> 'conflict'
      AND f.key = outbox_values.column_name AND (o.state = 'sending' OR o.first_sent_at IS NOT NULL)) THEN 2
  ELSE 1 END;
INSERT INTO outbox_events (outbox_id, at, from_state, who, to_state, why)
SELECT outbox.id, strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z', outbox.state, 'sql', CASE WHEN (SELECT json_group_object(f.key, json(f.value)) FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f
    WHERE NOT EXISTS (SELECT 1 FROM outbox_values AS v WHERE v.column_name = f.key AND v.effect <> 0)) <> '{}' THEN outbox.state WHEN NOT EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f JOIN outbox_values AS v ON v.column_name = f.key AND v.effect <> 0 WHERE v.effect = 1) THEN 'dropped' ELSE 'replaced' END,
  CASE WHEN NOT EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f JOIN outbox_values AS v ON v.column_name = f.key AND v.effect <> 0 WHERE v.effect = 1) THEN 'taken back: ' ELSE 'replaced by a later edit before it was sent: ' END
    || (SELECT group_concat(f.key, ', ') FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f JOIN outbox_values AS v ON v.column_name = f.key AND v.effect <> 0)
FROM outbox WHERE outbox.object_type = NEW.object_type AND outbox.record_id = NEW.record_id AND outbox.finished_at IS NULL
    AND outbox.state IN ('queued', 'held') AND outbox.first_sent_at IS NULL
    AND EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f JOIN outbox_values AS v ON v.column_name = f.key AND v.effect <> 0);
UPDATE outbox SET fields = CASE (SELECT json_group_object(f.key, json(f.value)) FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f
    WHERE NOT EXISTS (SELECT 1 FROM outbox_values AS v WHERE v.column_name = f.key AND v.effect <> 0)) WHEN '{}' THEN fields ELSE (SELECT json_group_object(f.key, json(f.value)) FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f
    WHERE NOT EXISTS (SELECT 1 FROM outbox_values AS v WHERE v.column_name = f.key AND v.effect <> 0)) END,
  state = CASE WHEN (SELECT json_group_object(f.key, json(f.value)) FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f
    WHERE NOT EXISTS (SELECT 1 FROM outbox_values AS v WHERE v.column_name = f.key AND v.effect <> 0)) <> '{}' THEN state WHEN NOT EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f JOIN outbox_values AS v ON v.column_name = f.key AND v.effect <> 0 WHERE v.effect = 1) THEN 'dropped' ELSE 'replaced' END,
  finished_at = CASE (SELECT json_group_object(f.key, json(f.value)) FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f
    WHERE NOT EXISTS (SELECT 1 FROM outbox_values AS v WHERE v.column_name = f.key AND v.effect <> 0)) WHEN '{}' THEN strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z' END
WHERE outbox.object_type = NEW.object_type AND outbox.record_id = NEW.record_id AND outbox.finished_at IS NULL
    AND outbox.state IN ('queued', 'held') AND outbox.first_sent_at IS NULL
    AND EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(outbox.fields) THEN outbox.fields ELSE '{}' END) AS f JOIN outbox_values AS v ON v.column_name = f.key AND v.effect <> 0);
END
;
CREATE INDEX contacts_by_created_at ON contacts (created_at, id);
CREATE INDEX contacts_by_updated_at ON contacts (updated_at, id);
CREATE INDEX contacts_by_owner ON contacts (owner_id);
CREATE INDEX contacts_by_company ON contacts (company_id);
CREATE INDEX contacts_by_email ON contacts (email);
CREATE INDEX contacts_by_last_interaction_at ON contacts (last_interaction_at);
CREATE INDEX changes_by_record ON changes (record_id, object_type, seq);
CREATE INDEX custom_multi_values_by_value ON custom_multi_values (object_type, field_key, value);
CREATE UNIQUE INDEX search_documents_by_record ON search_documents (is_company, record_id);
CREATE INDEX changes_by_time ON changes (object_type, seen_at);
CREATE INDEX ix_contacts_cf_children ON contacts (cf_children);
CREATE INDEX ix_contacts_cf_customer_ref ON contacts (cf_customer_ref);
CREATE INDEX ix_contacts_cf_lifetime_value_num ON contacts (cf_lifetime_value_num);
CREATE INDEX ix_contacts_cf_nickname ON contacts (cf_nickname);
CREATE INDEX ix_full_contacts_cf_customer_ref ON contacts (coalesce(cf_customer_ref, NULL));
CREATE INDEX ix_full_contacts_cf_nickname ON contacts (coalesce(cf_nickname, NULL));
CREATE INDEX companies_by_created_at ON companies (created_at, id);
CREATE INDEX companies_by_updated_at ON companies (updated_at, id);
CREATE INDEX companies_by_owner ON companies (owner_id);
CREATE INDEX companies_by_last_interaction_at ON companies (last_interaction_at);
CREATE INDEX ix_companies_cf_account_code ON companies (cf_account_code);
CREATE INDEX ix_companies_cf_credit_limit_num ON companies (cf_credit_limit_num);
CREATE INDEX ix_companies_cf_offices ON companies (cf_offices);
CREATE INDEX ix_companies_cf_public ON companies (cf_public);
CREATE INDEX ix_full_companies_cf_account_code ON companies (coalesce(cf_account_code, NULL));
PRAGMA writable_schema=OFF;
COMMIT;
