select
    id as contact_id,
    name,
    email,
    company_id,
    company_name,
    owner_id,
    owner_name,
    intent_level,
    cast(created_at as timestamp) as created_at,
    cast(updated_at as timestamp) as updated_at,
    cast(last_interaction_at as timestamp) as last_interaction_at
from {{ source('crm', 'contacts') }}
