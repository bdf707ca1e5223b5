"""Page of the operations that the EC2 API refuses or answers with an empty list."""
import rst

from nova.ec2 import absent
from nova.ec2 import unsupported


def page():
    lines = [*rst.heading('Operations of EC2 that are refused'),
             'With ``UnsupportedOperation`` and the reason, before anything is looked up. :doc:`../user/ec2` has what '
             'there is.']
    lines += rst.table(('Reason', 'Operations'), [
        (rst.escaped(reason), ', '.join(sorted(names.split()))) for reason, names in unsupported.REASONS], '40 60')
    lines += ['', 'These operations return an empty list, because the cloud lacks the feature: '
              + ', '.join(sorted(absent.OPERATIONS)) + '.']
    return lines
