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
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
) STRICT;
INSERT INTO team_members VALUES('tm_da58fbbee87e','伟','王','member5','member5@team.example','SUSPENDED','2024-12-18T00:46:06.000000Z','2024-12-18T00:46:06.000000Z',NULL,'2026-11-21T02:58:36.635037Z');
INSERT INTO team_members VALUES('tm_6d2c7ddf743f','Guðrún','Þórðardóttir','member2','member2@team.example','PENDING','2025-03-06T09:41:05.000000Z','2025-03-06T09:41:05.000000Z',NULL,'2026-11-21T02:58:36.635037Z');
INSERT INTO team_members VALUES('tm_e6e5fd29f054','Олена','Ковальчук','member3','member3@team.example','ACTIVE','2025-05-26T04:12:11.000000Z','2025-05-26T04:12:11.000000Z',NULL,'2026-11-21T02:58:36.635037Z');
INSERT INTO team_members VALUES('tm_cdcbfa53e0a8','Amélie','Tremblay','member7','member7@team.example','ACTIVE','2025-06-13T01:33:40.000000Z','2025-06-13T01:33:40.000000Z',NULL,'2026-11-21T02:58:36.635037Z');
INSERT INTO team_members VALUES('tm_54127b096493','Ștefania','Țurcanu','member6','member6@team.example','ACTIVE','2025-07-29T11:01:30.000000Z','2025-07-29T11:01:30.000000Z',NULL,'2026-11-21T02:58:36.635037Z');
INSERT INTO team_members VALUES('tm_609f7c746c69','Дмитрий','Щербаков','member4','member4@team.example','INACTIVE','2025-08-07T13:25:01.000000Z','2025-08-07T13:25:01.000000Z',NULL,'2026-11-21T02:58:36.635037Z');
INSERT INTO team_members VALUES('tm_79b97f4a7c15','Łukasz','Żółkiewski','member0','member0@team.example','ACTIVE','2025-10-16T11:53:53.000000Z','2025-10-16T11:53:53.000000Z',NULL,'2026-11-21T02:58:36.635037Z');
INSERT INTO team_members VALUES('tm_f372fe94f82a','İbrahim','Yıldız','member1','member1@team.example','SUSPENDED','2026-11-12T14:47:37.000000Z','2026-11-12T14:47:37.000000Z',NULL,'2026-11-21T02:58:36.635037Z');
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
, cf_last_audit TEXT, cf_contract_end TEXT, cf_offices INTEGER, cf_markets TEXT, cf_account_code TEXT, cf_region TEXT, cf_credit_limit TEXT, cf_credit_limit_num REAL, cf_public INTEGER) STRICT;
INSERT INTO companies VALUES('co_372fe94f82a0','Brightwater Software 0','Brightwater Software 0 GmbH','Software',NULL,NULL,'630M',NULL,'BR',1916,NULL,NULL,'2026-11-21T01:58:36.000000Z','completed','2026-08-06T03:47:17.000000Z',NULL,'2026-08-06T03:47:17.000000Z','2024-12-11T15:10:00.000000Z','2026-11-21T01:58:36.000000Z',0.80300000000000004707,'"2026-11-21T01:58:36.000Z"','https://brightwatersoftware0.example/',NULL,'2026-11-21T02:58:36.664547Z',NULL,'1989-05-05',NULL,NULL,'Müller 4607','amer','87133.25',87133.249999999999998,NULL);
INSERT INTO companies VALUES('co_2aa2e7e47aca','Hollow Oak Foods 2','Hollow Oak Foods 2 GmbH','Food & Beverage',NULL,NULL,'563M',NULL,'DE',NULL,'tm_609f7c746c69','https://cdn.example/hollowoakfoods2.png',NULL,'pending','2026-09-23T16:32:34.000000Z',NULL,'2026-09-23T16:32:34.000000Z','2025-05-28T23:49:03.000000Z','2026-02-20T03:32:15.514000Z',0.60499999999999998223,'"2026-02-20T03:32:15.514Z"','https://www.hollowoakfoods2.example/',NULL,'2026-11-21T02:58:36.664547Z','2027-05-04T02:01:49.000000Z','1984-06-13',NULL,'["amer"]','Pampa 2510','amer',NULL,NULL,0);
INSERT INTO companies VALUES('co_b0e96899feb5','Hollow Oak Works 1','Hollow Oak Works 1 Oy','Construction','Works',129,'{"amount":3503102,"currency":"EUR"}',NULL,'PL',1961,'tm_cdcbfa53e0a8','https://cdn.example/hollowoakworks1.png',NULL,'failed','2026-08-21T00:56:59.000000Z',NULL,'2026-08-21T00:56:59.000000Z','2026-05-29T18:42:18.000000Z','2026-07-29T09:30:39.397000Z',0.26700000000000001509,'"2026-07-29T09:30:39.397Z"','https://hollowoakworks1.example/',NULL,'2026-11-21T02:58:36.664547Z',NULL,'2002-04-04',442,NULL,'Vega 3990','apac','406297.74',406297.73999999999069,1);
CREATE TABLE company_details (
    company_id TEXT PRIMARY KEY NOT NULL REFERENCES companies (id),
    notes TEXT, -- notes
    notes_at TEXT, -- when the notes last changed
    customer_fit_score_reason TEXT, -- reason of the customer fit
    etag TEXT, -- the record's etag when this detail was read; current while it equals the record's
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    fetched_at TEXT NOT NULL -- when the detail was asked for, UTC
, cf_strategy TEXT) STRICT;
INSERT INTO company_details VALUES('co_372fe94f82a0','Asked for a quote over 200 seats before the end of the quarter. Asked for a quote over 200 seats before the end of the quarter. لا يرد على البريد الإلكتروني، اتصل به هاتفيًا. 来週もう一度連絡すること。','2026-11-21T01:58:36.000000Z',replace('Line one\nline two	with a tab and a backslash \ in it.','\n',char(10)),'"2026-11-21T01:58:36.000Z"',NULL,'2026-11-21T02:58:36.742000Z',NULL);
INSERT INTO company_details VALUES('co_b0e96899feb5',replace('Wants an export as CSV, with ; as the separator. Rencontrée au salon de Lyon, très intéressée par l''intégration. Prefers calls in the morning; never on Fridays. Wants an export as CSV, with ; as the separator. لا يرد على البريد الإلكتروني، اتصل به هاتفيًا. Line one\nline two	with a tab and a backslash \ in it.','\n',char(10)),'2026-07-29T09:30:39.397000Z','Asked for a quote over 200 seats before the end of the quarter.','"2026-07-29T09:30:39.397Z"',NULL,'2026-11-21T02:58:36.757449Z',NULL);
INSERT INTO company_details VALUES('co_2aa2e7e47aca',NULL,NULL,'Budget approved, waiting for "legal" to sign.','"2026-02-20T03:32:15.514Z"',NULL,'2026-11-21T02:58:36.759175Z',NULL);
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
, cf_nickname TEXT, cf_birthday TEXT, cf_lifetime_value TEXT, cf_lifetime_value_num REAL, cf_topics TEXT, cf_tier TEXT, cf__berweisung TEXT, cf__berweisung_num REAL, cf_customer_ref TEXT, cf_tier_2 TEXT, cf_next_call TEXT, cf_children INTEGER, cf_newsletter INTEGER) STRICT;
INSERT INTO contacts VALUES('ct_1e15e67972f4','Νίκη Παπαδοπούλου','Νίκη','Παπαδοπούλου','contact1@mail1.example','+440000000037','Einkaufsleiterin',NULL,NULL,'tm_da58fbbee87e',NULL,'2025-01-13T22:58:55.000000Z','2026-01-07T03:33:09.163000Z','partnership','LOW','2026-10-11T10:31:14.000000Z','completed','2026-01-07T03:33:09.163000Z','"2026-01-07T03:33:09.163Z"','GR','Bayern','München',NULL,'2026-11-21T02:58:36.650116Z',NULL,NULL,'741538.72',741538.71999999997205,NULL,'bronze',NULL,NULL,NULL,NULL,'2027-06-08T11:10:33.000000Z',NULL,1);
INSERT INTO contacts VALUES('ct_04fbe3a36348','İbrahim Yıldız','İbrahim','Yıldız','contact5@mail5.example','+440000000185','Harbour master','Brightwater Software 0','co_372fe94f82a0','tm_e6e5fd29f054',1,'2025-02-01T17:17:57.000000Z','2026-11-21T02:58:36.877000Z','partnership','MED','2026-07-08T19:13:55.000000Z','failed',NULL,'"2026-11-21T02:58:36.877Z"','TR','England','London',NULL,'2026-11-21T02:58:36.994336Z',NULL,'2005-08-06',NULL,NULL,'["api","日本"]',NULL,NULL,NULL,'Tōkai 6542',NULL,'2027-10-30T15:25:49.000000Z',NULL,NULL);
INSERT INTO contacts VALUES('ct_1188e50e6b1e','José́ Muñoz','José́','Muñoz','contact3@mail3.example','+440000000111','Researcher',NULL,NULL,'tm_54127b096493',0,'2025-06-01T21:53:04.000000Z','2026-01-01T15:24:16.848000Z',NULL,NULL,NULL,'completed','2026-01-01T15:24:16.848000Z','"2026-01-01T15:24:16.848Z"','MX',NULL,NULL,NULL,'2026-11-21T02:58:36.650116Z','Zephyr 2001','1950-01-23','12345678901234567890',12345678901234567167.0,NULL,NULL,NULL,NULL,'Lumen 1379',NULL,NULL,NULL,0);
INSERT INTO contacts VALUES('ct_8b426458e733','Ada Lovelace','Ada','Lovelace','contact4@mail4.example','+440000000148','営業部長','Brightwater Software 0','co_372fe94f82a0','tm_6d2c7ddf743f',0,'2025-08-15T05:38:54.000000Z','2026-11-21T01:58:36.000000Z','support','LOW',NULL,'failed',NULL,'"2026-11-21T01:58:36.000Z"','GB','California','San José',NULL,'2026-11-21T02:58:36.650116Z','Acme 5808',NULL,NULL,NULL,NULL,'bronze',NULL,NULL,NULL,NULL,NULL,855,0);
INSERT INTO contacts VALUES('ct_97cf65c3ef09','Ioana-Maria d''Angelo','Ioana-Maria','d''Angelo','contact2@mail2.example','+440000000074','Data Engineer','Hollow Oak Foods 2','co_2aa2e7e47aca','tm_79b97f4a7c15',0,'2026-01-12T01:55:40.000000Z','2026-04-30T12:38:11.289000Z',NULL,NULL,NULL,'completed','2026-04-30T12:38:11.289000Z','"2026-04-30T12:38:11.289Z"','IT','England','London',NULL,'2026-11-21T02:58:36.650116Z',NULL,NULL,NULL,NULL,NULL,'gold',NULL,NULL,NULL,NULL,NULL,NULL,1);
INSERT INTO contacts VALUES('ct_a45c672ef6df','Ioana-Maria d''Angelo','Ioana-Maria','d''Angelo','contact0@mail0.example','+440000000000','Directrice générale','Brightwater Software 0','co_372fe94f82a0','tm_da58fbbee87e',0,'2026-11-06T04:48:52.000000Z','2026-11-21T01:58:36.000000Z','purchase','MED','2026-10-17T01:55:01.000000Z','completed','2026-11-21T01:58:36.000000Z','"2026-11-21T01:58:36.000Z"','IT','England','London',NULL,'2026-11-21T02:58:36.650116Z',NULL,NULL,'198620.90',198620.89999999999417,NULL,'gold',NULL,NULL,'Kilo & Sons 9803',NULL,NULL,-18,0);
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
    etag TEXT, -- the record's etag when this detail was read; current while it equals the record's
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    fetched_at TEXT NOT NULL -- when the detail was asked for, UTC
, cf_background TEXT) STRICT;
INSERT INTO contact_details VALUES('ct_8b426458e733','Media','fr','Europe/London',NULL,'form',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-21T01:58:36.000000Z',NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,'GRANTED','2026-11-21T01:58:36.000000Z',NULL,NULL,'GRANTED',NULL,NULL,NULL,'2026-11-21T01:58:36.000000Z',0,'[]','2026-11-21T01:58:36.000000Z','REACHABLE',NULL,NULL,NULL,NULL,'"2026-11-21T01:58:36.000Z"',NULL,'2026-11-21T02:58:36.678493Z',NULL);
INSERT INTO contact_details VALUES('ct_1e15e67972f4','Hospitality','fr','Asia/Tokyo',NULL,'form',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-01-07T03:33:09.163000Z',NULL,'2026-10-11T10:31:14.000000Z',replace('Line one\nline two	with a tab and a backslash \ in it.','\n',char(10)),'["Asked for a quote over 200 seats before the end of the quarter."]','2026-01-07T03:33:09.163000Z',0,NULL,NULL,'UNKNOWN','2026-01-07T03:33:09.163000Z',NULL,NULL,'GRANTED',NULL,NULL,NULL,'2026-01-07T03:33:09.163000Z',1,'["webchat"]','2026-01-07T03:33:09.163000Z','REACHABLE',NULL,NULL,NULL,NULL,'"2026-01-07T03:33:09.163Z"',NULL,'2026-11-21T02:58:36.694962Z',NULL);
INSERT INTO contact_details VALUES('ct_1188e50e6b1e','Hospitality','fr','Asia/Tokyo',NULL,'import',NULL,NULL,NULL,97.0,'Hat das Angebot gelesen und möchte über den Preis sprechen.','0.74',0.73999999999999999111,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,'DENIED','2026-01-01T15:24:16.848000Z',NULL,NULL,'DENIED',NULL,NULL,NULL,'2026-01-01T15:24:16.848000Z',0,'[]','2026-01-01T15:24:16.848000Z','UNKNOWN',NULL,NULL,NULL,NULL,'"2026-01-01T15:24:16.848Z"',NULL,'2026-11-21T02:58:36.707382Z',NULL);
INSERT INTO contact_details VALUES('ct_a45c672ef6df','Media','ja','America/Sao_Paulo',NULL,'api',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-21T01:58:36.000000Z',NULL,'2026-10-17T01:55:01.000000Z',NULL,NULL,NULL,0,NULL,NULL,'DENIED','2026-11-21T01:58:36.000000Z',NULL,NULL,'UNKNOWN',NULL,NULL,NULL,'2026-11-21T01:58:36.000000Z',1,'["webchat"]','2026-11-21T01:58:36.000000Z','REACHABLE',NULL,NULL,NULL,NULL,'"2026-11-21T01:58:36.000Z"',NULL,'2026-11-21T02:58:36.685410Z',NULL);
INSERT INTO contact_details VALUES('ct_97cf65c3ef09','Hospitality','en','UTC',NULL,'form',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,replace('Line one\nline two	with a tab and a backslash \ in it.','\n',char(10)),'["Wants an export as CSV, with ; as the separator."]','2026-04-30T12:38:11.289000Z',0,NULL,NULL,'DENIED','2026-04-30T12:38:11.289000Z',NULL,NULL,'GRANTED',NULL,NULL,NULL,'2026-04-30T12:38:11.289000Z',1,'["phone","webchat"]','2026-04-30T12:38:11.289000Z','UNREACHABLE',NULL,NULL,NULL,NULL,'"2026-04-30T12:38:11.289Z"',NULL,'2026-11-21T02:58:36.685853Z',NULL);
INSERT INTO contact_details VALUES('ct_04fbe3a36348','Hospitality','hi','Asia/Tokyo',NULL,'api',NULL,NULL,NULL,83.0,'Asked for a quote over 200 seats before the end of the quarter.','0.18',0.17999999999999999333,NULL,NULL,'2026-02-24T01:21:04.874000Z',NULL,'2026-07-08T19:13:55.000000Z',NULL,NULL,NULL,0,NULL,NULL,'UNKNOWN','2026-02-24T01:21:04.874000Z',NULL,NULL,'UNKNOWN',NULL,NULL,NULL,'2026-02-24T01:21:04.874000Z',1,'["email","phone","webchat"]','2026-02-24T01:21:04.874000Z','REACHABLE',NULL,NULL,NULL,NULL,'"2026-11-21T02:58:36.877Z"',NULL,'2026-11-21T02:58:37.022091Z',NULL);
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
INSERT INTO custom_field_definitions VALUES('cf_4785799e5cbd','nickname','Nickname','SHORT_TEXT','contact','ACTIVE','2025-09-16T18:47:15.000000Z','2025-09-16T18:47:15.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_nickname',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_21de755d453b','birthday','Birthday','DATE','contact','ACTIVE','2025-10-21T15:14:54.000000Z','2025-10-21T15:14:54.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_birthday',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_2e6b76c84d11','lifetime_value','Lifetime value','DECIMAL','contact','ACTIVE','2025-11-26T07:28:09.000000Z','2025-11-26T07:28:09.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_lifetime_value',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_8f0af33cb97a','topics','Topics','MULTI_SELECT','contact','ACTIVE','2025-12-28T21:24:55.000000Z','2025-12-28T21:24:55.000000Z',NULL,1,0,1,1,1,0,'["hasAny","isNull"]','cf_topics',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_155173f23d65','tier','Tier','SINGLE_SELECT','contact','ACTIVE','2026-02-06T15:20:01.000000Z','2026-02-06T15:20:01.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_tier',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_08c47287358f','Überweisung','Überweisung','DECIMAL','contact','ACTIVE','2026-04-14T07:00:23.000000Z','2026-04-14T07:00:23.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf__berweisung',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_c13ef8e8d8d2','customer-ref','Customer reference','SHORT_TEXT','contact','ACTIVE','2026-06-01T05:04:52.000000Z','2026-06-01T05:04:52.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_customer_ref',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_827df1d1b1a4','Tier','Tier (old spelling)','SHORT_TEXT','contact','ACTIVE','2026-06-21T17:21:49.000000Z','2026-06-21T17:21:49.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_tier_2',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_9b97f4a7c150','next call','Next call','DATETIME','contact','ACTIVE','2026-06-23T03:40:08.000000Z','2026-06-23T03:40:08.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_next_call',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_b4b1f77dd0fc','children','Children','INTEGER','contact','ACTIVE','2026-06-23T09:06:56.000000Z','2026-06-23T09:06:56.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_children',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_3af8783354e7','background','Background','LONG_TEXT','contact','ACTIVE','2026-07-15T11:09:18.000000Z','2026-07-15T11:09:18.000000Z',NULL,1,0,1,1,1,0,'["isNull"]','cf_background',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_a824f612c926','newsletter','Newsletter','BOOLEAN','contact','ACTIVE','2026-10-03T17:57:48.000000Z','2026-10-03T17:57:48.000000Z',NULL,1,0,1,1,1,0,'["eq","isNull"]','cf_newsletter',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_fc37711c2db9','fax','Fax','SHORT_TEXT','contact','ARCHIVED','2026-04-24T23:45:51.000000Z','2026-04-24T23:45:51.000000Z','2026-11-20T02:58:36.000000Z',1,0,1,1,1,0,'["eq","in","isNull"]','cf_fax',NULL,'2026-11-21T02:58:36.554075Z');
INSERT INTO custom_field_definitions VALUES('cf_5049ec25924c','last_audit','Last audit','DATETIME','company','ACTIVE','2025-08-18T00:36:51.000000Z','2025-08-18T00:36:51.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_last_audit',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_d6906cdb1637','contract_end','End of contract','DATE','company','ACTIVE','2025-11-09T02:46:13.000000Z','2025-11-09T02:46:13.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_contract_end',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_6963eefba1f8','offices','Offices','INTEGER','company','ACTIVE','2025-11-12T21:05:52.000000Z','2025-11-12T21:05:52.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_offices',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_43bceaba8a76','markets','Markets','MULTI_SELECT','company','ACTIVE','2025-11-19T05:31:03.000000Z','2025-11-19T05:31:03.000000Z',NULL,1,0,1,1,1,0,'["hasAny","isNull"]','cf_markets',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_75f0f066a9ce','account_code','Account code','SHORT_TEXT','company','ACTIVE','2026-03-05T12:17:11.000000Z','2026-03-05T12:17:11.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_account_code',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_efaa6fb125e3','strategy','Strategy','LONG_TEXT','company','ACTIVE','2026-04-23T17:17:20.000000Z','2026-04-23T17:17:20.000000Z',NULL,1,0,1,1,1,0,'["isNull"]','cf_strategy',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_ca036b700e61','region','Region','SINGLE_SELECT','company','ACTIVE','2026-06-22T12:08:37.000000Z','2026-06-22T12:08:37.000000Z',NULL,1,0,1,1,1,0,'["eq","in","isNull"]','cf_region',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_e31d6e461e0d','credit_limit','Credit limit','DECIMAL','company','ACTIVE','2026-08-30T07:45:00.000000Z','2026-08-30T07:45:00.000000Z',NULL,1,0,1,1,1,0,'["eq","gt","gte","lt","lte","isNull"]','cf_credit_limit',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_5cd6ed909a22','public','Listed','BOOLEAN','company','ACTIVE','2026-09-14T22:50:09.000000Z','2026-09-14T22:50:09.000000Z',NULL,1,0,1,1,1,0,'["eq","isNull"]','cf_public',NULL,'2026-11-21T02:58:36.605285Z');
INSERT INTO custom_field_definitions VALUES('cf_bd766a05068b','telex','Telex','SHORT_TEXT','company','ARCHIVED','2026-06-21T16:40:34.000000Z','2026-06-21T16:40:34.000000Z','2026-11-20T02:58:36.000000Z',1,0,1,1,1,0,'["eq","in","isNull"]','cf_telex',NULL,'2026-11-21T02:58:36.605285Z');
CREATE TABLE custom_field_options (
    definition_id TEXT NOT NULL REFERENCES custom_field_definitions (id),
    position INTEGER NOT NULL, -- from 0, in the service's order
    value TEXT NOT NULL, -- the public value key, as it stands in records
    label TEXT, -- display text
    PRIMARY KEY (definition_id, position)
) STRICT, WITHOUT ROWID;
INSERT INTO custom_field_options VALUES('cf_155173f23d65',0,'gold','Gold');
INSERT INTO custom_field_options VALUES('cf_155173f23d65',1,'silver','Silver');
INSERT INTO custom_field_options VALUES('cf_155173f23d65',2,'bronze','Bronze');
INSERT INTO custom_field_options VALUES('cf_43bceaba8a76',0,'emea','EMEA');
INSERT INTO custom_field_options VALUES('cf_43bceaba8a76',1,'apac','APAC');
INSERT INTO custom_field_options VALUES('cf_43bceaba8a76',2,'amer','Americas');
INSERT INTO custom_field_options VALUES('cf_8f0af33cb97a',0,'pricing','Pricing');
INSERT INTO custom_field_options VALUES('cf_8f0af33cb97a',1,'api','API');
INSERT INTO custom_field_options VALUES('cf_8f0af33cb97a',2,'support','Support');
INSERT INTO custom_field_options VALUES('cf_8f0af33cb97a',3,'größe','Größe');
INSERT INTO custom_field_options VALUES('cf_8f0af33cb97a',4,'日本','日本');
INSERT INTO custom_field_options VALUES('cf_ca036b700e61',0,'emea','EMEA');
INSERT INTO custom_field_options VALUES('cf_ca036b700e61',1,'apac','APAC');
INSERT INTO custom_field_options VALUES('cf_ca036b700e61',2,'amer','Americas');
CREATE TABLE custom_multi_values (
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    field_key TEXT NOT NULL, -- the definition's key
    position INTEGER NOT NULL, -- from 0, in the service's order
    value TEXT NOT NULL,
    PRIMARY KEY (object_type, record_id, field_key, position)
) STRICT, WITHOUT ROWID;
INSERT INTO custom_multi_values VALUES('company','co_2aa2e7e47aca','markets',0,'amer');
INSERT INTO custom_multi_values VALUES('contact','ct_04fbe3a36348','topics',0,'api');
INSERT INTO custom_multi_values VALUES('contact','ct_04fbe3a36348','topics',1,'日本');
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
    record_id TEXT NOT NULL,
    kind TEXT NOT NULL, -- insert, update or remove
    fields TEXT NOT NULL, -- JSON: {column: [old, new]}
    seen_at TEXT NOT NULL -- when the mirror saw it, UTC
) STRICT;
INSERT INTO changes VALUES(1,'contact','ct_04fbe3a36348','update','{"etag":["\"2026-02-24T01:21:04.874Z\"","\"2026-11-21T02:58:36.877Z\""],"position":["VP, Sales","Harbour master"],"updated_at":["2026-02-24T01:21:04.874000Z","2026-11-21T02:58:36.877000Z"]}','2026-11-21T02:58:36.994336Z');
INSERT INTO changes VALUES(2,'contact','ct_04fbe3a36348','update','{"etag":["\"2026-02-24T01:21:04.874Z\"","\"2026-11-21T02:58:36.877Z\""]}','2026-11-21T02:58:37.022091Z');
CREATE TABLE sync_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL, -- sync, resync or verify
    "trigger" TEXT NOT NULL, -- manual, schedule or demo
    started_at TEXT NOT NULL, -- UTC
    finished_at TEXT, -- NULL while running, or when the process was killed
    outcome TEXT, -- done, paused, refused or failed
    "rows" INTEGER NOT NULL DEFAULT 0, -- rows that lists and details returned
    ru INTEGER NOT NULL DEFAULT 0, -- request units charged
    inserted INTEGER NOT NULL DEFAULT 0, -- records that were new here
    updated INTEGER NOT NULL DEFAULT 0, -- records that had changed
    removed INTEGER NOT NULL DEFAULT 0, -- records confirmed as removed
    details INTEGER NOT NULL DEFAULT 0, -- details read
    warnings INTEGER NOT NULL DEFAULT 0, -- values kept in extra, items that cannot be mirrored
    error TEXT
) STRICT;
INSERT INTO sync_runs VALUES(1,'sync','manual','2026-11-21T02:58:36.544263Z','2026-11-21T02:58:36.774199Z','done',49,16,17,0,0,9,0,NULL);
INSERT INTO sync_runs VALUES(2,'sync','manual','2026-11-21T02:58:36.981800Z','2026-11-21T02:58:37.037991Z','done',2,3,0,1,0,1,0,NULL);
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
INSERT INTO mirror_columns VALUES('changes','fields',4,NULL,NULL,'text','mirror','JSON: {column: [old, new]}');
INSERT INTO mirror_columns VALUES('changes','kind',3,NULL,NULL,'text','mirror','insert, update or remove');
INSERT INTO mirror_columns VALUES('changes','object_type',1,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('changes','record_id',2,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('changes','seen_at',5,NULL,NULL,'text','mirror','when the mirror saw it, UTC');
INSERT INTO mirror_columns VALUES('changes','seq',0,NULL,NULL,'integer','mirror','grows with every change, never reused');
INSERT INTO mirror_columns VALUES('companies','cf_account_code',27,'customFields.account_code','Account code','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_contract_end',24,'customFields.contract_end','End of contract','DATE','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_credit_limit',29,'customFields.credit_limit','Credit limit','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_credit_limit_num',30,'customFields.credit_limit','Credit limit','number','custom','the nearest double of cf_credit_limit, for sorting and sums');
INSERT INTO mirror_columns VALUES('companies','cf_last_audit',23,'customFields.last_audit','Last audit','DATETIME','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_markets',26,'customFields.markets','Markets','MULTI_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_offices',25,'customFields.offices','Offices','INTEGER','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_public',31,'customFields.public','Listed','BOOLEAN','custom',NULL);
INSERT INTO mirror_columns VALUES('companies','cf_region',28,'customFields.region','Region','SINGLE_SELECT','custom',NULL);
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
INSERT INTO mirror_columns VALUES('companies_full','cf_account_code',29,'customFields.account_code','Account code','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_contract_end',26,'customFields.contract_end','End of contract','DATE','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_credit_limit',31,'customFields.credit_limit','Credit limit','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_credit_limit_num',32,'customFields.credit_limit','Credit limit','number','custom','the nearest double of cf_credit_limit, for sorting and sums');
INSERT INTO mirror_columns VALUES('companies_full','cf_last_audit',25,'customFields.last_audit','Last audit','DATETIME','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_markets',28,'customFields.markets','Markets','MULTI_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_offices',27,'customFields.offices','Offices','INTEGER','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_public',33,'customFields.public','Listed','BOOLEAN','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_region',30,'customFields.region','Region','SINGLE_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','cf_strategy',34,'customFields.strategy','Strategy','LONG_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('companies_full','created_at',17,'createdAt',NULL,'timestamp','list','when the record was created');
INSERT INTO mirror_columns VALUES('companies_full','customer_fit_score',19,'customerFitScore',NULL,'number','list','customer fit, compared as stored');
INSERT INTO mirror_columns VALUES('companies_full','customer_fit_score_reason',24,'customerFitScoreReason',NULL,'text','detail','reason of the customer fit');
INSERT INTO mirror_columns VALUES('companies_full','detail_extra',36,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('companies_full','details_current',39,NULL,NULL,'boolean','mirror','1 while the detail''s columns are as new as the record''s, else 0');
INSERT INTO mirror_columns VALUES('companies_full','employee_count',5,'employeeCount',NULL,'integer','list','number of employees');
INSERT INTO mirror_columns VALUES('companies_full','enrichment_at',12,'enrichmentAt',NULL,'timestamp','list','when the record was enriched');
INSERT INTO mirror_columns VALUES('companies_full','enrichment_status',13,'enrichmentStatus',NULL,'text','list','pending, completed or failed');
INSERT INTO mirror_columns VALUES('companies_full','etag',20,'etag',NULL,'etag','list','version token of the record, its quotes included');
INSERT INTO mirror_columns VALUES('companies_full','extra',35,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('companies_full','fetched_at',38,NULL,NULL,'timestamp','mirror','when the detail was asked for');
INSERT INTO mirror_columns VALUES('companies_full','hq_country',8,'hqCountry',NULL,'text','list','country of the headquarters');
INSERT INTO mirror_columns VALUES('companies_full','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('companies_full','industry',3,'industry',NULL,'text','list','industry');
INSERT INTO mirror_columns VALUES('companies_full','last_interaction_at',16,'lastInteractionAt',NULL,'timestamp','list','time of the last interaction');
INSERT INTO mirror_columns VALUES('companies_full','last_message_received_at',15,'lastMessageReceivedAt',NULL,'timestamp','list','last message received from the company');
INSERT INTO mirror_columns VALUES('companies_full','last_message_sent_at',14,'lastMessageSentAt',NULL,'timestamp','list','last message sent to the company');
INSERT INTO mirror_columns VALUES('companies_full','logo',11,'logo',NULL,'value','list','logo, exactly as the service gives it');
INSERT INTO mirror_columns VALUES('companies_full','name',1,'name',NULL,'text','list','name');
INSERT INTO mirror_columns VALUES('companies_full','notes',22,'notes',NULL,'text','detail','notes');
INSERT INTO mirror_columns VALUES('companies_full','notes_at',23,'notesAt',NULL,'timestamp','detail','when the notes last changed');
INSERT INTO mirror_columns VALUES('companies_full','owner_id',10,'ownerId',NULL,'text','list','identifier of the owning team member');
INSERT INTO mirror_columns VALUES('companies_full','registered_name',2,'registeredName',NULL,'text','list','registered name');
INSERT INTO mirror_columns VALUES('companies_full','revenue',6,'revenue',NULL,'value','list','revenue, exactly as the service gives it');
INSERT INTO mirror_columns VALUES('companies_full','revenue_num',7,'revenue',NULL,'number','list','the nearest double of revenue, for sorting and sums');
INSERT INTO mirror_columns VALUES('companies_full','sub_industry',4,'subIndustry',NULL,'text','list','part of the industry');
INSERT INTO mirror_columns VALUES('companies_full','synced_at',37,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('companies_full','updated_at',18,'updatedAt',NULL,'timestamp','list','when the record last changed');
INSERT INTO mirror_columns VALUES('companies_full','website_url',21,'websiteUrl',NULL,'text','list','web site');
INSERT INTO mirror_columns VALUES('companies_full','year_founded',9,'yearFounded',NULL,'integer','list','year of foundation');
INSERT INTO mirror_columns VALUES('company_details','cf_strategy',6,'customFields.strategy','Strategy','LONG_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('company_details','company_id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('company_details','customer_fit_score_reason',3,'customerFitScoreReason',NULL,'text','detail','reason of the customer fit');
INSERT INTO mirror_columns VALUES('company_details','etag',4,'etag',NULL,'etag','detail','the record''s etag when this detail was read');
INSERT INTO mirror_columns VALUES('company_details','extra',5,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('company_details','fetched_at',7,NULL,NULL,'timestamp','mirror','when the detail was asked for');
INSERT INTO mirror_columns VALUES('company_details','notes',1,'notes',NULL,'text','detail','notes');
INSERT INTO mirror_columns VALUES('company_details','notes_at',2,'notesAt',NULL,'timestamp','detail','when the notes last changed');
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
INSERT INTO mirror_columns VALUES('contacts','cf__berweisung',29,'customFields.Überweisung','Überweisung','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf__berweisung_num',30,'customFields.Überweisung','Überweisung','number','custom','the nearest double of cf__berweisung, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts','cf_birthday',24,'customFields.birthday','Birthday','DATE','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_children',34,'customFields.children','Children','INTEGER','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_customer_ref',31,'customFields.customer-ref','Customer reference','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_lifetime_value',25,'customFields.lifetime_value','Lifetime value','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_lifetime_value_num',26,'customFields.lifetime_value','Lifetime value','number','custom','the nearest double of cf_lifetime_value, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts','cf_newsletter',35,'customFields.newsletter','Newsletter','BOOLEAN','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_next_call',33,'customFields.next call','Next call','DATETIME','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_nickname',23,'customFields.nickname','Nickname','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_tier',28,'customFields.tier','Tier','SINGLE_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_tier_2',32,'customFields.Tier','Tier (old spelling)','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts','cf_topics',27,'customFields.topics','Topics','MULTI_SELECT','custom',NULL);
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
INSERT INTO mirror_columns VALUES('contacts_full','cf__berweisung',68,'customFields.Überweisung','Überweisung','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf__berweisung_num',69,'customFields.Überweisung','Überweisung','number','custom','the nearest double of cf__berweisung, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts_full','cf_background',75,'customFields.background','Background','LONG_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_birthday',63,'customFields.birthday','Birthday','DATE','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_children',73,'customFields.children','Children','INTEGER','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_customer_ref',70,'customFields.customer-ref','Customer reference','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_lifetime_value',64,'customFields.lifetime_value','Lifetime value','DECIMAL','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_lifetime_value_num',65,'customFields.lifetime_value','Lifetime value','number','custom','the nearest double of cf_lifetime_value, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts_full','cf_newsletter',74,'customFields.newsletter','Newsletter','BOOLEAN','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_next_call',72,'customFields.next call','Next call','DATETIME','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_nickname',62,'customFields.nickname','Nickname','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_tier',67,'customFields.tier','Tier','SINGLE_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_tier_2',71,'customFields.Tier','Tier (old spelling)','SHORT_TEXT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','cf_topics',66,'customFields.topics','Topics','MULTI_SELECT','custom',NULL);
INSERT INTO mirror_columns VALUES('contacts_full','company',7,'company',NULL,'text','list','company text');
INSERT INTO mirror_columns VALUES('contacts_full','company_id',8,'companyId',NULL,'text','list','identifier of the company');
INSERT INTO mirror_columns VALUES('contacts_full','consent_updated_at',53,'consentUpdatedAt',NULL,'timestamp','detail','when any consent last changed');
INSERT INTO mirror_columns VALUES('contacts_full','contactability_updated_at',56,'contactabilityUpdatedAt',NULL,'timestamp','detail','when contactability last changed');
INSERT INTO mirror_columns VALUES('contacts_full','contactable',54,'contactable',NULL,'boolean','detail','whether any channel reaches the contact');
INSERT INTO mirror_columns VALUES('contacts_full','contactable_channels',55,'contactableChannels',NULL,'json','detail','the channels that do');
INSERT INTO mirror_columns VALUES('contacts_full','created_at',11,'createdAt',NULL,'timestamp','list','when the record was created');
INSERT INTO mirror_columns VALUES('contacts_full','detail_extra',77,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('contacts_full','details_current',80,NULL,NULL,'boolean','mirror','1 while the detail''s columns are as new as the record''s, else 0');
INSERT INTO mirror_columns VALUES('contacts_full','do_not_contact',42,'doNotContact',NULL,'boolean','detail','whether the contact must not be contacted');
INSERT INTO mirror_columns VALUES('contacts_full','do_not_contact_at',43,'doNotContactAt',NULL,'timestamp','detail','since when');
INSERT INTO mirror_columns VALUES('contacts_full','do_not_contact_reason',44,'doNotContactReason',NULL,'text','detail','why');
INSERT INTO mirror_columns VALUES('contacts_full','email',4,'email',NULL,'text','list','primary e-mail address; read-only through the API');
INSERT INTO mirror_columns VALUES('contacts_full','email_marketing_consent_status',45,'emailMarketingConsentStatus',NULL,'text','detail','consent to marketing by e-mail');
INSERT INTO mirror_columns VALUES('contacts_full','email_marketing_consent_updated_at',46,'emailMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the e-mail consent changed');
INSERT INTO mirror_columns VALUES('contacts_full','email_reachability_status',57,'emailReachabilityStatus',NULL,'text','detail','reachable by e-mail');
INSERT INTO mirror_columns VALUES('contacts_full','enrichment_at',17,'enrichmentAt',NULL,'timestamp','list','when the record was enriched');
INSERT INTO mirror_columns VALUES('contacts_full','enrichment_status',16,'enrichmentStatus',NULL,'text','list','pending, completed or failed');
INSERT INTO mirror_columns VALUES('contacts_full','etag',18,'etag',NULL,'etag','list','version token of the record, its quotes included');
INSERT INTO mirror_columns VALUES('contacts_full','extra',76,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('contacts_full','fetched_at',79,NULL,NULL,'timestamp','mirror','when the detail was asked for');
INSERT INTO mirror_columns VALUES('contacts_full','first_name',2,'firstName',NULL,'text','list','first name');
INSERT INTO mirror_columns VALUES('contacts_full','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('contacts_full','industry',22,'industry',NULL,'text','detail','industry, as stored text');
INSERT INTO mirror_columns VALUES('contacts_full','intent_inferred_at',36,'intentInferredAt',NULL,'timestamp','detail','when the intent was inferred');
INSERT INTO mirror_columns VALUES('contacts_full','intent_level',14,'intentLevel',NULL,'text','list','HIGH, MED or LOW');
INSERT INTO mirror_columns VALUES('contacts_full','intent_reason',35,'intentReason',NULL,'text','detail','reason of the intent');
INSERT INTO mirror_columns VALUES('contacts_full','intent_type',13,'intentType',NULL,'text','list','kind of intent');
INSERT INTO mirror_columns VALUES('contacts_full','language',23,'language',NULL,'text','detail','preferred language');
INSERT INTO mirror_columns VALUES('contacts_full','last_interaction_at',15,'lastInteractionAt',NULL,'timestamp','list','time of the last interaction');
INSERT INTO mirror_columns VALUES('contacts_full','last_message_received_at',38,'lastMessageReceivedAt',NULL,'timestamp','detail','last message received from the contact');
INSERT INTO mirror_columns VALUES('contacts_full','last_message_sent_at',37,'lastMessageSentAt',NULL,'timestamp','detail','last message sent to the contact');
INSERT INTO mirror_columns VALUES('contacts_full','last_name',3,'lastName',NULL,'text','list','last name');
INSERT INTO mirror_columns VALUES('contacts_full','linkedin_url',25,'linkedinUrl',NULL,'text','detail','LinkedIn profile');
INSERT INTO mirror_columns VALUES('contacts_full','location_city',21,'location.city',NULL,'text','list','city');
INSERT INTO mirror_columns VALUES('contacts_full','location_country',19,'location.country',NULL,'text','list','country, as stored text');
INSERT INTO mirror_columns VALUES('contacts_full','location_region',20,'location.region',NULL,'text','list','region');
INSERT INTO mirror_columns VALUES('contacts_full','mobile',5,'mobile',NULL,'text','list','primary mobile number; read-only through the API');
INSERT INTO mirror_columns VALUES('contacts_full','name',1,'name',NULL,'text','list','full name');
INSERT INTO mirror_columns VALUES('contacts_full','notes',28,'notes',NULL,'text','detail','notes');
INSERT INTO mirror_columns VALUES('contacts_full','notes_at',29,'notesAt',NULL,'timestamp','detail','when the notes last changed');
INSERT INTO mirror_columns VALUES('contacts_full','origin_channel',27,'originChannel',NULL,'text','detail','channel of the first contact');
INSERT INTO mirror_columns VALUES('contacts_full','owner_id',9,'ownerId',NULL,'text','list','identifier of the owning team member');
INSERT INTO mirror_columns VALUES('contacts_full','phone_marketing_consent_status',51,'phoneMarketingConsentStatus',NULL,'text','detail','consent to marketing by phone');
INSERT INTO mirror_columns VALUES('contacts_full','phone_marketing_consent_updated_at',52,'phoneMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the phone consent changed');
INSERT INTO mirror_columns VALUES('contacts_full','phone_reachability_status',61,'phoneReachabilityStatus',NULL,'text','detail','reachable by phone');
INSERT INTO mirror_columns VALUES('contacts_full','position',6,'position',NULL,'text','list','job title');
INSERT INTO mirror_columns VALUES('contacts_full','qualification',10,'qualification',NULL,'boolean','list','whether the contact is qualified');
INSERT INTO mirror_columns VALUES('contacts_full','qualification_confidence',32,'qualificationConfidence',NULL,'value','detail','confidence of the qualification');
INSERT INTO mirror_columns VALUES('contacts_full','qualification_confidence_num',33,'qualificationConfidence',NULL,'number','detail','the nearest double of qualification_confidence, for sorting and sums');
INSERT INTO mirror_columns VALUES('contacts_full','qualified_at',34,'qualifiedAt',NULL,'timestamp','detail','when the contact was qualified');
INSERT INTO mirror_columns VALUES('contacts_full','reasoning',31,'reasoning',NULL,'text','detail','reasoning behind the qualification');
INSERT INTO mirror_columns VALUES('contacts_full','record_source',26,'recordSource',NULL,'text','detail','where the record came from');
INSERT INTO mirror_columns VALUES('contacts_full','score',30,'score',NULL,'number','detail','deprecated historical score');
INSERT INTO mirror_columns VALUES('contacts_full','session_summary_at',41,'sessionSummaryAt',NULL,'timestamp','detail','when the session was summarised');
INSERT INTO mirror_columns VALUES('contacts_full','session_summary_discussed',39,'sessionSummaryDiscussed',NULL,'value','detail','what the last session discussed');
INSERT INTO mirror_columns VALUES('contacts_full','session_summary_requests',40,'sessionSummaryRequests',NULL,'value','detail','what the contact asked for');
INSERT INTO mirror_columns VALUES('contacts_full','sms_marketing_consent_status',47,'smsMarketingConsentStatus',NULL,'text','detail','consent to marketing by SMS');
INSERT INTO mirror_columns VALUES('contacts_full','sms_marketing_consent_updated_at',48,'smsMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the SMS consent changed');
INSERT INTO mirror_columns VALUES('contacts_full','synced_at',78,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('contacts_full','timezone',24,'timezone',NULL,'text','detail','time zone');
INSERT INTO mirror_columns VALUES('contacts_full','updated_at',12,'updatedAt',NULL,'timestamp','list','when the record last changed');
INSERT INTO mirror_columns VALUES('contacts_full','web_chat_reachability_status',58,'webChatReachabilityStatus',NULL,'text','detail','reachable by web chat');
INSERT INTO mirror_columns VALUES('contacts_full','whatsapp_marketing_consent_status',49,'whatsappMarketingConsentStatus',NULL,'text','detail','consent to marketing by WhatsApp');
INSERT INTO mirror_columns VALUES('contacts_full','whatsapp_marketing_consent_updated_at',50,'whatsappMarketingConsentUpdatedAt',NULL,'timestamp','detail','when the WhatsApp consent changed');
INSERT INTO mirror_columns VALUES('contacts_full','whatsapp_reachability_status',59,'whatsappReachabilityStatus',NULL,'text','detail','reachable by WhatsApp');
INSERT INTO mirror_columns VALUES('contacts_full','whatsapp_service_window_expires_at',60,'whatsappServiceWindowExpiresAt',NULL,'timestamp','detail','when the WhatsApp service window closes');
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
INSERT INTO mirror_columns VALUES('removed_records','id',1,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('removed_records','object_type',0,NULL,NULL,'text','mirror','contact or company');
INSERT INTO mirror_columns VALUES('removed_records','record',3,NULL,NULL,'text','mirror','the last known record, a JSON object by column');
INSERT INTO mirror_columns VALUES('removed_records','removed_at',2,NULL,NULL,'text','mirror','when the removal was confirmed, UTC');
INSERT INTO mirror_columns VALUES('service_oddities','first_seen_at',3,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('service_oddities','kind',0,NULL,NULL,'text','mirror','unordered_page, row_outside_filter, repeated_cursor, ...');
INSERT INTO mirror_columns VALUES('service_oddities','last_seen_at',4,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('service_oddities','resource',1,NULL,NULL,'text','mirror','contacts, companies, team-members or custom-fields');
INSERT INTO mirror_columns VALUES('service_oddities','times',5,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('service_oddities','what',2,NULL,NULL,'text','mirror','a sentence');
INSERT INTO mirror_columns VALUES('sync_runs','details',11,NULL,NULL,'integer','mirror','details read');
INSERT INTO mirror_columns VALUES('sync_runs','error',13,NULL,NULL,'text','mirror',NULL);
INSERT INTO mirror_columns VALUES('sync_runs','finished_at',4,NULL,NULL,'text','mirror','NULL while running, or when the process was killed');
INSERT INTO mirror_columns VALUES('sync_runs','id',0,NULL,NULL,'integer','mirror',NULL);
INSERT INTO mirror_columns VALUES('sync_runs','inserted',8,NULL,NULL,'integer','mirror','records that were new here');
INSERT INTO mirror_columns VALUES('sync_runs','kind',1,NULL,NULL,'text','mirror','sync, resync or verify');
INSERT INTO mirror_columns VALUES('sync_runs','outcome',5,NULL,NULL,'text','mirror','done, paused, refused or failed');
INSERT INTO mirror_columns VALUES('sync_runs','removed',10,NULL,NULL,'integer','mirror','records confirmed as removed');
INSERT INTO mirror_columns VALUES('sync_runs','rows',6,NULL,NULL,'integer','mirror','rows that lists and details returned');
INSERT INTO mirror_columns VALUES('sync_runs','ru',7,NULL,NULL,'integer','mirror','request units charged');
INSERT INTO mirror_columns VALUES('sync_runs','started_at',3,NULL,NULL,'text','mirror','UTC');
INSERT INTO mirror_columns VALUES('sync_runs','trigger',2,NULL,NULL,'text','mirror','manual, schedule or demo');
INSERT INTO mirror_columns VALUES('sync_runs','updated',9,NULL,NULL,'integer','mirror','records that had changed');
INSERT INTO mirror_columns VALUES('sync_runs','warnings',12,NULL,NULL,'integer','mirror','values kept in extra, items that cannot be mirrored');
INSERT INTO mirror_columns VALUES('team_members','created_at',6,'createdAt',NULL,'timestamp','list','when the member was created');
INSERT INTO mirror_columns VALUES('team_members','email',4,'email',NULL,'text','list','e-mail address');
INSERT INTO mirror_columns VALUES('team_members','extra',8,NULL,NULL,'json','mirror','what the columns cannot hold, verbatim JSON by wire name');
INSERT INTO mirror_columns VALUES('team_members','first_name',1,'firstName',NULL,'text','list','first name');
INSERT INTO mirror_columns VALUES('team_members','id',0,'id',NULL,'id','list','record identifier');
INSERT INTO mirror_columns VALUES('team_members','last_name',2,'lastName',NULL,'text','list','last name');
INSERT INTO mirror_columns VALUES('team_members','status',5,'status',NULL,'text','list','ACTIVE, INACTIVE, SUSPENDED or PENDING');
INSERT INTO mirror_columns VALUES('team_members','synced_at',9,NULL,NULL,'timestamp','mirror','when the answer that this row was last written from was asked for');
INSERT INTO mirror_columns VALUES('team_members','updated_at',7,'updatedAt',NULL,'timestamp','list','when the member last changed');
INSERT INTO mirror_columns VALUES('team_members','username',3,'username',NULL,'text','list','user name');
CREATE TABLE state (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO state VALUES('caught_up:company','{"began":"2026-11-21T02:58:37.013248829Z","finished":"2026-11-21T02:58:37.018361110Z"}');
INSERT INTO state VALUES('caught_up:contact','{"began":"2026-11-21T02:58:36.993950451Z","finished":"2026-11-21T02:58:37.010309748Z"}');
INSERT INTO state VALUES('changes:company','{"watermark":"2026-11-21T01:58:36.000000000Z","served_at":"2026-11-21T02:58:37.000000000Z","walk":null}');
INSERT INTO state VALUES('changes:contact','{"watermark":"2026-11-21T02:58:36.877000000Z","served_at":"2026-11-21T02:58:37.000000000Z","walk":null}');
INSERT INTO state VALUES('copied:company','true');
INSERT INTO state VALUES('copied:contact','true');
INSERT INTO state VALUES('evidence:company','{"as_of":"2026-11-21T02:58:36.664093318Z","by_record":true,"open":0}');
INSERT INTO state VALUES('evidence:contact','{"as_of":"2026-11-21T02:58:36.649585440Z","by_record":true,"open":0}');
INSERT INTO state VALUES('identity','{"base_url":"http://127.0.0.1:8080/v1","key":"6ffd698cec1b5af8"}');
INSERT INTO state VALUES('layout','3');
INSERT INTO state VALUES('ledger','{"since":"2026-11-21T00:00:00.000000000Z","used":19,"total":19}');
INSERT INTO state VALUES('read:custom-fields','{"began":"2026-11-21T02:58:36.554043575Z","finished":"2026-11-21T02:58:36.634676566Z"}');
INSERT INTO state VALUES('read:team-members','{"began":"2026-11-21T02:58:36.635028771Z","finished":"2026-11-21T02:58:36.646297980Z"}');
INSERT INTO state VALUES('settled:company','true');
INSERT INTO state VALUES('settled:contact','true');
INSERT INTO state VALUES('swept:company','{"began":"2026-11-21T02:58:36.664093318Z","finished":"2026-11-21T02:58:36.677639321Z"}');
INSERT INTO state VALUES('swept:contact','{"began":"2026-11-21T02:58:36.649585440Z","finished":"2026-11-21T02:58:36.663586612Z"}');
CREATE TABLE sweep_missing (
    object_type TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (object_type, id)
) STRICT, WITHOUT ROWID;
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('sync_runs',2);
INSERT INTO sqlite_sequence VALUES('changes',2);
CREATE VIEW contacts_full AS SELECT r.id, r.name, r.first_name, r.last_name, r.email, r.mobile, r.position, r.company, r.company_id, r.owner_id, r.qualification, r.created_at, r.updated_at, r.intent_type, r.intent_level, r.last_interaction_at, r.enrichment_status, r.enrichment_at, r.etag, r.location_country, r.location_region, r.location_city, d.industry, d.language, d.timezone, d.linkedin_url, d.record_source, d.origin_channel, d.notes, d.notes_at, d.score, d.reasoning, d.qualification_confidence, d.qualification_confidence_num, d.qualified_at, d.intent_reason, d.intent_inferred_at, d.last_message_sent_at, d.last_message_received_at, d.session_summary_discussed, d.session_summary_requests, d.session_summary_at, d.do_not_contact, d.do_not_contact_at, d.do_not_contact_reason, d.email_marketing_consent_status, d.email_marketing_consent_updated_at, d.sms_marketing_consent_status, d.sms_marketing_consent_updated_at, d.whatsapp_marketing_consent_status, d.whatsapp_marketing_consent_updated_at, d.phone_marketing_consent_status, d.phone_marketing_consent_updated_at, d.consent_updated_at, d.contactable, d.contactable_channels, d.contactability_updated_at, d.email_reachability_status, d.web_chat_reachability_status, d.whatsapp_reachability_status, d.whatsapp_service_window_expires_at, d.phone_reachability_status, r.cf_nickname, r.cf_birthday, r.cf_lifetime_value, r.cf_lifetime_value_num, r.cf_topics, r.cf_tier, r.cf__berweisung, r.cf__berweisung_num, r.cf_customer_ref, r.cf_tier_2, r.cf_next_call, r.cf_children, r.cf_newsletter, d.cf_background, r.extra, d.extra AS detail_extra, r.synced_at, d.fetched_at, (d.contact_id IS NOT NULL AND d.etag IS r.etag) AS details_current FROM contacts AS r LEFT JOIN contact_details AS d ON d.contact_id = r.id;
CREATE VIEW companies_full AS SELECT r.id, r.name, r.registered_name, r.industry, r.sub_industry, r.employee_count, r.revenue, r.revenue_num, r.hq_country, r.year_founded, r.owner_id, r.logo, r.enrichment_at, r.enrichment_status, r.last_message_sent_at, r.last_message_received_at, r.last_interaction_at, r.created_at, r.updated_at, r.customer_fit_score, r.etag, r.website_url, d.notes, d.notes_at, d.customer_fit_score_reason, r.cf_last_audit, r.cf_contract_end, r.cf_offices, r.cf_markets, r.cf_account_code, r.cf_region, r.cf_credit_limit, r.cf_credit_limit_num, r.cf_public, d.cf_strategy, r.extra, d.extra AS detail_extra, r.synced_at, d.fetched_at, (d.company_id IS NOT NULL AND d.etag IS r.etag) AS details_current FROM companies AS r LEFT JOIN company_details AS d ON d.company_id = r.id;
CREATE INDEX contacts_by_created_at ON contacts (created_at, id);
CREATE INDEX contacts_by_updated_at ON contacts (updated_at, id);
CREATE INDEX companies_by_created_at ON companies (created_at, id);
CREATE INDEX companies_by_updated_at ON companies (updated_at, id);
CREATE INDEX changes_by_record ON changes (object_type, record_id, seq);
COMMIT;
