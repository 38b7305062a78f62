select
    m.id as owner_id,
    m.email,
    m.status,
    count(c.contact_id) as contacts,
    sum(case when c.intent_level = 'HIGH' then 1 else 0 end) as hot_contacts
from {{ source('crm', 'team_members') }} as m
left join {{ ref('contacts') }} as c on c.owner_id = m.id
group by m.id, m.email, m.status
