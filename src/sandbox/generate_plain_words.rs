//! Words of plain workspaces: matching people, places and companies.

/// A country with its typical places and names.
#[derive(Debug)]
pub(crate) struct Country {
    pub(crate) code: &'static str,
    pub(crate) language: &'static str,
    pub(crate) zone: &'static str,
    pub(crate) dialling: &'static str,
    pub(crate) legal: &'static str,
    /// Region and city.
    pub(crate) cities: &'static [(&'static str, &'static str)],
    pub(crate) first: &'static [&'static str],
    pub(crate) last: &'static [&'static str],
}

pub(crate) const COUNTRIES: &[Country] = &[
    Country {
        code: "GB",
        language: "en",
        zone: "Europe/London",
        dialling: "+4477",
        legal: "Ltd",
        cities: &[("England", "London"), ("England", "Manchester"), ("Scotland", "Glasgow"), ("Wales", "Cardiff")],
        first: &["Emma", "Oliver", "Sophie", "James", "Grace", "Thomas", "Alice", "Henry"],
        last: &["Walker", "Hughes", "Bennett", "Clarke", "Foster", "Morgan", "Shaw", "Wright"],
    },
    Country {
        code: "US",
        language: "en",
        zone: "America/New_York",
        dialling: "+1555",
        legal: "Inc.",
        cities: &[("New York", "New York"), ("Massachusetts", "Boston"), ("Georgia", "Atlanta"), ("Florida", "Miami")],
        first: &["Olivia", "Noah", "Ava", "Ethan", "Mia", "Daniel", "Chloe", "Lucas"],
        last: &["Johnson", "Miller", "Davis", "Carter", "Brooks", "Reed", "Parker", "Hayes"],
    },
    Country {
        code: "DE",
        language: "de",
        zone: "Europe/Berlin",
        dialling: "+49151",
        legal: "GmbH",
        cities: &[("Bayern", "München"), ("Berlin", "Berlin"), ("Hamburg", "Hamburg"), ("Hessen", "Frankfurt")],
        first: &["Anna", "Lukas", "Marie", "Felix", "Lena", "Paul", "Julia", "Jonas"],
        last: &["Schmidt", "Weber", "Fischer", "Wagner", "Becker", "Hoffmann", "Koch", "Richter"],
    },
    Country {
        code: "FR",
        language: "fr",
        zone: "Europe/Paris",
        dialling: "+336",
        legal: "SAS",
        cities: &[("Île-de-France", "Paris"), ("Auvergne-Rhône-Alpes", "Lyon"), ("Nouvelle-Aquitaine", "Bordeaux")],
        first: &["Camille", "Louis", "Manon", "Hugo", "Claire", "Julien", "Sarah", "Antoine"],
        last: &["Martin", "Bernard", "Dubois", "Laurent", "Moreau", "Girard", "Roux", "Fontaine"],
    },
    Country {
        code: "ES",
        language: "es",
        zone: "Europe/Madrid",
        dialling: "+346",
        legal: "S.L.",
        cities: &[("Madrid", "Madrid"), ("Cataluña", "Barcelona"), ("Andalucía", "Sevilla")],
        first: &["Lucía", "Pablo", "Carmen", "Javier", "Elena", "Diego", "Marta", "Sergio"],
        last: &["García", "Romero", "Navarro", "Torres", "Molina", "Ortega", "Delgado", "Castro"],
    },
    Country {
        code: "BR",
        language: "pt-BR",
        zone: "America/Sao_Paulo",
        dialling: "+5511",
        legal: "Ltda.",
        cities: &[("São Paulo", "São Paulo"), ("Rio de Janeiro", "Rio de Janeiro"), ("Paraná", "Curitiba")],
        first: &["Ana", "Pedro", "Beatriz", "Rafael", "Larissa", "Bruno", "Julia", "Tiago"],
        last: &["Silva", "Oliveira", "Costa", "Almeida", "Ribeiro", "Carvalho", "Gomes", "Rocha"],
    },
];

/// The last word of a name, the industry, and the revenue of one employee.
pub(crate) const INDUSTRIES: &[(&str, &str, i64)] = &[
    ("Software", "Software", 160_000),
    ("Logistics", "Logistics", 120_000),
    ("Foods", "Food & Beverage", 180_000),
    ("Energy", "Energy", 290_000),
    ("Consulting", "Consulting", 140_000),
    ("Construction", "Construction", 150_000),
    ("Media", "Media", 110_000),
    ("Travel", "Hospitality", 90_000),
];

pub(crate) const STEMS: &[&str] = &[
    "Northwind",
    "Kestrel",
    "Brightwater",
    "Hollow Oak",
    "Lumen",
    "Quarry",
    "Saffron",
    "Tundra",
    "Vega",
    "Zephyr",
    "Alder",
    "Beacon",
    "Cobalt",
    "Drift",
    "Ember",
    "Fjord",
    "Granite",
    "Harbour",
    "Indigo",
    "Juniper",
    "Keystone",
    "Larch",
    "Meridian",
    "Nimbus",
    "Orchard",
    "Pioneer",
    "Redwood",
    "Summit",
    "Tidal",
    "Union",
];

pub(crate) const POSITIONS: &[&str] = &[
    "Account Manager",
    "Buyer",
    "Chief Executive",
    "Data Engineer",
    "Finance Manager",
    "Head of Marketing",
    "Head of Procurement",
    "Office Manager",
    "Operations Manager",
    "Product Manager",
    "Sales Director",
];

pub(crate) const NOTES: &[&str] = &[
    "Asked for a quote for 50 seats before the end of the quarter.",
    "Prefers calls in the morning.",
    "Met at the trade fair; interested in the integration.",
    "Has read the offer and wants to discuss the price.",
    "Budget approved, waiting for the legal department.",
    "Wants an export as CSV.",
];
