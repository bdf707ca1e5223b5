"""[notifications]: which notifications are sent, and in which form. [oslo_messaging_notifications]
enables them and sets the driver.
"""
from oslo_config import cfg

GROUP = 'notifications'

OPTIONS = [
    cfg.StrOpt('notification_format', default='unversioned', choices=[
        ('both', 'each event twice, in both forms'),
        ('versioned', 'payloads with a name, a version and fields that are documented one by one'),
        ('unversioned', 'the older form, which metering and billing systems read')],
        help='Format of notifications. Versioned notifications go to versioned_notifications_topics, unversioned '
             'ones to the topics of [oslo_messaging_notifications].'),
    cfg.StrOpt('notify_on_state_change', choices=[
        ('vm_state', 'when the vm state has changed'),
        ('vm_and_task_state', 'when the vm state or the task state has changed')],
        help='State changes that send instance.update. Empty: none. New servers and changes of name or tags are '
             'always sent. vm_and_task_state sends several notifications per action.'),
    cfg.ListOpt('versioned_notifications_topics', default=['versioned_notifications'],
                help='Queues for versioned notifications, one for each consumer. Each queue gets all '
                     'notifications. A queue without a consumer grows.'),
    cfg.BoolOpt('bdms_in_notifications', default=False,
                help='Whether versioned notifications of servers include their volumes. Each such notification '
                     'costs a query of the cell database.'),
    cfg.BoolOpt('include_share_mapping', default=False,
                help='Whether versioned notifications of servers include their shares. Each such notification '
                     'costs a query of the cell database.'),
]
