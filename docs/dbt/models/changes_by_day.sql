select
    cast(cast(seen_at as timestamp) as date) as day,
    object_type,
    kind,
    count(*) as changes
from {{ source('crm', 'changes') }}
group by 1, 2, 3
