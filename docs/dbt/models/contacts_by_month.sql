select
    date_trunc('month', created_at) as month,
    count(*) as contacts,
    count(company_id) as with_company
from {{ ref('contacts') }}
group by 1
