"""Decides nothing itself: the administration of the whole catalog, one part per kind of entry."""

from deltaic.catalog.recipients import RecipientAdmin
from deltaic.catalog.shares import ShareAdmin
from deltaic.catalog.storages import StorageAdmin


class CatalogAdmin(ShareAdmin, RecipientAdmin, StorageAdmin):
    """Creates, shows, lists, changes and deletes shares, schemas, tables, recipients, grants and storages.

    Every uniqueness and every "only if empty" holds against any number of racing administrators, by conditions in the
    same transaction as the change. Names match without regard to case and keep their first spelling.
    """
