"""GET .../all-skills, .../skills and .../skills/{skill}: the skills of a granted share."""

from deltaic.http.asset_endpoints import list_skills
from deltaic.http.edge import buffered

handler = buffered("list_skills", list_skills)
