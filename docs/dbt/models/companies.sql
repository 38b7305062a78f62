with people as (
    select company_id, count(*) as contacts, max(last_interaction_at) as last_contact_at
    from {{ ref('contacts') }}
    where company_id is not null
    group by company_id
)

select
    c.id as company_id,
    c.name,
    c.industry,
    c.hq_country,
    c.employee_count,
    c.owner_id,
    coalesce(p.contacts, 0) as contacts,
    p.last_contact_at
from {{ source('crm', 'companies') }} as c
left join people as p on p.company_id = c.id
