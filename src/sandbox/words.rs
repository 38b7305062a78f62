//! Words for generated records: many locales, many scripts, and a few texts that break careless code.

pub(crate) const PEOPLE: &[(&str, &str, &str)] = &[
    ("Ada", "Lovelace", "GB"),
    ("Zoë", "O'Brien", "IE"),
    ("Jürgen", "Müller-Lüdenscheidt", "DE"),
    ("María José", "Núñez de la Peña", "ES"),
    ("François", "Lefèvre", "FR"),
    ("Søren", "Ångström", "DK"),
    ("Łukasz", "Żółkiewski", "PL"),
    ("Jiří", "Dvořák", "CZ"),
    ("Ștefania", "Țurcanu", "RO"),
    ("İbrahim", "Yıldız", "TR"),
    ("Νίκη", "Παπαδοπούλου", "GR"),
    ("Дмитрий", "Щербаков", "BG"),
    ("Олена", "Ковальчук", "UA"),
    ("יעל", "כהן", "IL"),
    ("محمد", "الأحمد", "AE"),
    ("فاطمه", "رضایی", "IR"),
    ("आरव", "शर्मा", "IN"),
    ("প্রিয়া", "সেনগুপ্ত", "BD"),
    ("สมชาย", "ใจดี", "TH"),
    ("Nguyễn", "Thị Ánh", "VN"),
    ("伟", "王", "CN"),
    ("さくら", "佐藤", "JP"),
    ("민준", "김", "KR"),
    ("Amélie", "Tremblay", "CA"),
    ("João", "Conceição", "BR"),
    ("Chimamanda", "Okonkwo", "NG"),
    ("Thandiwe", "Mkhize", "ZA"),
    ("Wanjirũ", "Kamau", "KE"),
    ("Guðrún", "Þórðardóttir", "IS"),
    ("Matti", "Hämäläinen", "FI"),
    ("Ioana-Maria", "d'Angelo", "IT"),
    ("Grace", "Hopper", "US"),
    ("Robert", "Smith; DROP TABLE contacts;--", "US"),
    ("José\u{301}", "Muñoz", "MX"),
    ("👩\u{200d}🚀 Kai", "Null", "NZ"),
];

pub(crate) const CITIES: &[(&str, &str, &str)] = &[
    ("GB", "England", "London"),
    ("DE", "Bayern", "München"),
    ("FR", "Île-de-France", "Paris"),
    ("ES", "Galicia", "A Coruña"),
    ("PL", "Małopolskie", "Kraków"),
    ("JP", "東京都", "千代田区"),
    ("BR", "São Paulo", "São José dos Campos"),
    ("US", "California", "San José"),
    ("IN", "महाराष्ट्र", "मुंबई"),
    ("IS", "Höfuðborgarsvæðið", "Reykjavík"),
    ("NG", "Lagos", "Ikeja"),
    ("AE", "دبي", "دبي"),
];

pub(crate) const COMPANIES: &[&str] = &[
    "Northwind",
    "Kestrel",
    "Blue Fjord",
    "Acme",
    "Müller",
    "Æther",
    "Sol y Mar",
    "Tōkai",
    "Vega",
    "Quarry",
    "Lumen",
    "Brightwater",
    "Hollow Oak",
    "Kilo & Sons",
    "Orbit",
    "Pampa",
    "Saffron",
    "Tundra",
    "Umbra",
    "Zephyr",
];

pub(crate) const COMPANY_KINDS: &[(&str, &str)] = &[
    ("Logistics", "Logistics"),
    ("Foods", "Food & Beverage"),
    ("Robotics", "Manufacturing"),
    ("Labs", "Biotechnology"),
    ("Software", "Software"),
    ("Energy", "Energy"),
    ("Studio", "Media"),
    ("Bank", "Financial Services"),
    ("Works", "Construction"),
    ("Travel", "Hospitality"),
];

pub(crate) const LEGAL: &[&str] = &["Ltd", "GmbH", "S.A.", "Inc.", "Oy", "株式会社", "d.o.o.", "Kft."];

pub(crate) const POSITIONS: &[&str] = &[
    "CTO",
    "CEO",
    "Head of Procurement",
    "Einkaufsleiterin",
    "Directrice générale",
    "Ingeniera de datos",
    "Buyer",
    "Office Manager",
    "営業部長",
    "Founder & \"Chief\" Dreamer",
    "VP, Sales",
    "Data Engineer",
    "Researcher",
];

pub(crate) const SENTENCES: &[&str] = &[
    "Asked for a quote over 200 seats before the end of the quarter.",
    "Prefers calls in the morning; never on Fridays.",
    "Rencontrée au salon de Lyon, très intéressée par l'intégration.",
    "Hat das Angebot gelesen und möchte über den Preis sprechen.",
    "来週もう一度連絡すること。",
    "Budget approved, waiting for \"legal\" to sign.",
    "Line one\nline two\twith a tab and a backslash \\ in it.",
    "Moved from a competitor after their outage 😬.",
    "Wants an export as CSV, with ; as the separator.",
    "لا يرد على البريد الإلكتروني، اتصل به هاتفيًا.",
];

pub(crate) const LANGUAGES: &[&str] = &["en", "de", "fr", "es", "ja", "pt-BR", "pl", "ar", "hi"];
pub(crate) const ZONES: &[&str] = &["Europe/London", "Europe/Berlin", "America/Sao_Paulo", "Asia/Tokyo", "UTC"];
pub(crate) const INTENTS: &[&str] = &["purchase", "support", "partnership", "renewal"];
pub(crate) const LEVELS: &[&str] = &["HIGH", "MED", "LOW"];
pub(crate) const ENRICHMENT: &[&str] = &["completed", "completed", "completed", "pending", "failed"];
pub(crate) const CONSENT: &[&str] = &["GRANTED", "DENIED", "UNKNOWN"];
pub(crate) const REACHABILITY: &[&str] = &["REACHABLE", "UNREACHABLE", "UNKNOWN"];
pub(crate) const CHANNELS: &[&str] = &["email", "whatsapp", "phone", "webchat"];
pub(crate) const SOURCES: &[&str] = &["import", "form", "api", "manual"];

/// Decimals that a double cannot represent, and some that a 28-digit decimal cannot represent.
pub(crate) const DECIMALS: &[&str] = &[
    "99999999999999999999.9999999999",
    "-99999999999999999999.9999999999",
    "0.0000000001",
    "0",
    "-0.5",
    "12345678901234567890",
];
