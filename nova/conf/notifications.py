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
        help='Form of notifications. Versioned events go to versioned_notifications_topics, the others to topics of '
             '[oslo_messaging_notifications].'),
    cfg.StrOpt('notify_on_state_change', choices=[
        ('vm_state', 'when the vm state has changed'),
        ('vm_and_task_state', 'when the vm state or the task state has changed')],
        help='Which changes of state are sent as instance.update. Empty: none; a new server, another name and other '
             'tags are always sent. vm_and_task_state is several events an action.'),
    cfg.ListOpt('versioned_notifications_topics', default=['versioned_notifications'],
                help='Queues of versioned events, one a consumer: each gets all of them. A queue without a '
                     'consumer grows.'),
    cfg.BoolOpt('bdms_in_notifications', default=False,
                help='Versioned events of servers name their volumes, which costs a query of the cell database each.'),
    cfg.BoolOpt('include_share_mapping', default=False,
                help='Versioned events of servers name their shares, which costs a query of the cell database each.'),
]
